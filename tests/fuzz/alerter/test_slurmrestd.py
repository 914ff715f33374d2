"""What a slurmrestd, or what stands before one, answers while its versions are found out, and its token file."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from dutycycle_alerter.bounded_http import Answer
from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.rest import VERSIONS, Slurmrestd
from tests.alerter.slurm import shapes
from tests.fuzz.hostile import documents, jsons
from tests.fuzz.running import fuzz

JOBS = [shapes.answer(shape, "jobs", [shapes.job(shape)]) for shape in shapes.SHAPES]
FAILED = {"errors": [{"error_number": 9003, "error": "Nothing found", "description": "none"}], "jobs": []}
UNCHANGED = {"jobs": [], "warnings": [{"description": "No job changes since update_time[1]=7"}]}
ANSWERS = st.builds(
    Answer,
    status=st.sampled_from([200, 200, 200, 204, 301, 304, 401, 404, 404, 500, 503, 999]),
    headers=st.just({}),
    body=jsons([*JOBS, FAILED, UNCHANGED]),
)


class _Connections:
    """Says one answer after the other, and then the last one again."""

    def __init__(self, answers: list[Answer]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    def request(self, _: str, url: str, **__: object) -> Answer:
        self.asked.append(url)
        return self._answers[min(len(self.asked), len(self._answers)) - 1]


@fuzz(answers=st.lists(ANSWERS, min_size=1, max_size=4), since=st.none() | st.integers(0, 2**33))
def test_the_version_that_answers_is_found_or_what_is_wrong_is_said(answers: list[Answer], since: int | None) -> None:
    client = Slurmrestd(Slurm(url="http://slurm.example:6820"))
    client._connections = connections = _Connections(answers)  # type: ignore[assignment]
    for call in (
        lambda: client.jobs(since, Nonsense()),
        lambda: client.nodes(Nonsense()),
        lambda: client.figures([7], 0.0, Nonsense()),
        lambda: client.jobs(since, Nonsense()),
    ):
        before = len(connections.asked)
        try:
            call()
        except SourceError as error:
            assert str(error).startswith("slurmrestd at http://slurm.example:6820"), "names the server"
            assert len(str(error)) < 2000
            assert str(error).isprintable()
        asked = connections.asked[before:]
        assert 1 <= len(asked) <= len(VERSIONS) + 1, "no version is tried without end"
        assert all(url.split("/")[4] in VERSIONS for url in asked), "no answer leads elsewhere"


@fuzz(content=documents([b"eyJhbGciOiJIUzI1NiJ9.x.y\n", b"SLURM_JWT=eyJhbGciOiJIUzI1NiJ9.x.y\n"]))
def test_a_token_file_is_a_header_or_refused(content: bytes, directory: Path) -> None:
    path = directory / "token"
    path.write_bytes(content)
    try:
        headers = Slurmrestd(Slurm(url="http://slurm.example:6820", token_file=path))._headers()
    except SourceError as error:
        assert str(error).startswith(f"slurm.token_file {path}: "), "names the file"
        return
    token = headers["X-SLURM-USER-TOKEN"]
    assert token
    assert token.isascii()
    assert token.isprintable()
    assert " " not in token
