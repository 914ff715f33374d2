"""slurmrestd: versions, tokens, incremental answers, refusals with their remedy, and servers that answer nonsense."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.rest import VERSIONS, Slurmrestd
from tests.alerter.raw_http import Behaviour, answering, dripping, endless, hanging, server, whole
from tests.alerter.slurm.restd import TOKEN, Restd, restd
from tests.alerter.slurm.shapes import MIXED, OBJECTS, PLAIN, SHAPES, accounted, answer, job, node

PATIENT, IMPATIENT = 60.0, 0.5


@contextmanager
def client(url: str, timeout: float = PATIENT, **changed: Any) -> Iterator[Slurmrestd]:
    given = {"url": url, "timeout": timeout, "token": TOKEN, **changed}
    made = Slurmrestd(Slurm.model_validate({name: value for name, value in given.items() if value is not None}))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def double() -> Iterator[Restd]:
    with restd() as made:
        made.says("slurm/jobs", answer(PLAIN, "jobs", [job(PLAIN)]))
        made.says("slurm/nodes", answer(PLAIN, "nodes", [node(PLAIN, "IDLE")]))
        made.says("slurmdb/jobs", answer(PLAIN, "jobs", [accounted(PLAIN)]))
        yield made


def job_ids(source: Slurmrestd) -> list[int]:
    table = source.jobs(None, Nonsense())
    assert table is not None
    return list(table.jobs)


def test_jobs_nodes_and_figures(double: Restd) -> None:
    with client(double.url, user="dutycycle") as source:
        assert job_ids(source) == [3]
        assert list(source.nodes(Nonsense())) == ["gpu02"]
        assert [run.id for run in source.figures([8, 9], 1700000000.5, Nonsense())] == [8]
    # 22.05 takes no bare comma, and a time without a zone would be that of the server.
    assert double.calls[-1] == "/slurmdb/v0.0.38/jobs?step=8%2C9&start_time=uts1700000000"
    assert {headers["x-slurm-user-name"] for headers in double.headers} == {"dutycycle"}
    assert {headers["x-slurm-user-token"] for headers in double.headers} == {TOKEN}


def test_over_a_unix_socket_without_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JWT", raising=False)
    with restd(tmp_path / "slurmrestd.socket") as double:
        double.says("slurm/jobs", answer(OBJECTS, "jobs", [job(OBJECTS)]))
        with client(double.url, token=None) as source, pytest.raises(SourceError, match="no token") as error:
            source.jobs(None, Nonsense())
        assert double.url in str(error.value)
        monkeypatch.setenv("SLURM_JWT", TOKEN)
        with client(double.url, token=None) as source:
            assert job_ids(source) == [3]


@pytest.mark.parametrize("spoken", [("v0.0.43", "v0.0.41"), ("v0.0.39",), ("v0.0.36",), ("v0.0.44",), VERSIONS])
def test_the_newest_known_version_is_found_once(double: Restd, spoken: tuple[str, ...]) -> None:
    double.versions = spoken
    with client(double.url) as source:
        assert job_ids(source) == job_ids(source) == [3]
    assert [call.split("/")[2] for call in double.calls[-2:]] == [spoken[0]] * 2
    assert len(double.calls) == VERSIONS.index(spoken[0]) + 2


def test_after_an_upgrade_the_version_is_found_anew(double: Restd) -> None:
    with client(double.url) as source:
        assert job_ids(source) == [3]
        double.versions = ("v0.0.40", "v0.0.41")
        double.says("slurm/jobs", answer(OBJECTS, "jobs", [job(OBJECTS, job_id=4)]))
        assert job_ids(source) == [4]
        double.calls.clear()
        assert job_ids(source) == [4]
        assert double.calls == ["/slurm/v0.0.41/jobs"]


def test_a_server_that_knows_no_version_is_not_ours(double: Restd) -> None:
    double.versions = ("v0.0.35",)
    with client(double.url) as source, pytest.raises(SourceError, match=r"no version.*slurm\.url"):
        source.jobs(None, Nonsense())


def test_accounting_may_be_missing(double: Restd) -> None:
    del double.replies["slurmdb/jobs"]
    with client(double.url) as source:
        with pytest.raises(SourceError, match=r"slurm\.accounting"):
            source.figures([8], 0, Nonsense())
        assert job_ids(source) == [3]


def test_nothing_new_is_304_or_from_23_02_on_a_warning(double: Restd) -> None:
    with client(double.url) as source:
        double.says("slurm/jobs", b"", 304)
        assert source.jobs(1700000000, Nonsense()) is None
        assert double.calls[-1].endswith("/jobs?update_time=1700000000")
        warning = [{"description": "No job changes since update_time[1700000000]=Tue", "source": "_op_handler_jobs"}]
        double.says("slurm/jobs", {**answer(MIXED, "jobs", []), "warnings": warning})
        assert source.jobs(1700000000, Nonsense()) is None
        double.says("slurm/jobs", answer(MIXED, "jobs", []))
        table = source.jobs(1700000000, Nonsense())
        assert table is not None
        assert not table.jobs
        # Without having asked for changes only, an empty list is an empty cluster, whatever is said beside it.
        double.says("slurm/jobs", {**answer(MIXED, "jobs", []), "warnings": warning})
        assert job_ids(source) == []


def test_the_token_file_is_read_for_every_call(double: Restd, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"SLURM_JWT={TOKEN}\n")
    with client(double.url, token=None, token_file=file) as source:
        assert job_ids(source) == [3]
        double.token = "renewed.token.x"
        with pytest.raises(SourceError, match=r"answered 500.*slurm\.token_file"):
            source.jobs(None, Nonsense())
        file.write_text("renewed.token.x")
        assert job_ids(source) == [3]


@pytest.mark.parametrize("content", [b"", b"\n", b"SLURM_JWT=", b"a b", b"a\nX-Evil: b", b"\xff\xfe", b"x" * 10**5])
def test_a_token_file_without_a_token(double: Restd, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with (
        client(double.url, token=None, token_file=file) as source,
        pytest.raises(SourceError, match=r"slurm\.token_file .*token"),
    ):
        source.jobs(None, Nonsense())
    assert not double.calls


def test_a_token_file_that_is_not_there(double: Restd, tmp_path: Path) -> None:
    with (
        client(double.url, token=None, token_file=tmp_path / "none") as source,
        pytest.raises(SourceError, match=r"slurm\.token_file .*No such file"),
    ):
        source.jobs(None, Nonsense())


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (401, b"Authentication failure", r"answered 401.*slurm\.token_file and slurm\.user"),
        (403, b"", r"answered 403.*slurm\.token_file"),
        (
            500,
            {"errors": [{"description": "Unable to contact slurm controller"}]},
            "Unable to contact slurm controller",
        ),
        (500, b"", r"answered 500\. Is slurmctld up"),
        (502, b"<html>bad gateway</html>", "answered 502"),
        (302, b"", "answered 302"),
        (204, b"", "answered 204"),
        (200, {"errors": [{"error": "Zero Bytes were transmitted or received"}], "jobs": []}, "Zero Bytes"),
        (200, {"jobs": "many"}, "no list of jobs"),
        (200, {"jobs": [1, 2]}, "none of 2 jobs"),
        (200, [], "not a JSON object"),
        (200, b"", "not JSON"),
        (200, b'{"jobs": [{"job_id": 1', "not JSON"),
        (200, b'{"jobs": ' + b"[" * 50000, "nested too deeply"),
    ],
)
def test_a_refusal_or_nonsense_is_an_error_that_names_the_endpoint(
    double: Restd, status: int, body: object, why: str
) -> None:
    double.says("slurm/jobs", body, status)
    with client(double.url) as source:
        with pytest.raises(SourceError, match=why) as error:
            source.jobs(None, Nonsense())
        assert f"slurmrestd at {double.url}" in str(error.value)
        assert TOKEN not in str(error.value)
        double.says("slurm/jobs", answer(PLAIN, "jobs", [job(PLAIN)]))
        assert job_ids(source) == [3], "it is read again as soon as it answers"


def test_what_accounting_does_not_know_is_no_error(double: Restd) -> None:
    nothing = answer(PLAIN, "jobs", [], errors=[{"error_number": 9003, "error": "Nothing found with query"}])
    for status in (200, 500):
        double.says("slurmdb/jobs", nothing, status)
        with client(double.url) as source:
            assert source.figures([99], 0, Nonsense()) == []


@pytest.mark.parametrize(
    "behave",
    [
        hanging(b""),
        hanging(whole(b'{"jobs": []}')[:-2]),
        dripping(b"HTTP/1.1 200 OK\r\nX: "),
        dripping(b"HTTP/1.1 200 OK\r\n\r\n"),
    ],
    ids=["silence", "silence within the body", "dripping header", "dripping body"],
)
def test_a_server_that_never_ends_is_left_at_the_time_out(behave: Behaviour) -> None:
    with (
        server(behave) as url,
        client(url.removesuffix("/metrics"), IMPATIENT) as source,
        pytest.raises(SourceError, match=r"within 0\.5 s.*slurm\.timeout"),
    ):
        source.jobs(None, Nonsense())


@pytest.mark.parametrize(
    "behave",
    [answering(), answering(b"SSH-2.0-OpenSSH\r\n"), answering(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")],
    ids=["nothing", "another protocol", "cut short"],
)
def test_a_server_that_is_none(behave: Behaviour) -> None:
    with server(behave) as url, client(url.removesuffix("/metrics")) as source, pytest.raises(SourceError):
        source.jobs(None, Nonsense())


def test_an_answer_that_is_too_large_is_left() -> None:
    with (
        server(endless(b" " * 65536)) as url,
        client(url.removesuffix("/metrics"), max_bytes=2**20) as source,
        pytest.raises(SourceError, match=r"larger than 1 MiB.*slurm\.max_bytes"),
    ):
        source.jobs(None, Nonsense())


def test_a_socket_that_nobody_serves(tmp_path: Path) -> None:
    with client(f"unix://{tmp_path}/none") as source, pytest.raises(SourceError, match=r"none: .*No such file"):
        source.jobs(None, Nonsense())


def test_a_certificate_file_that_cannot_be_read(tmp_path: Path) -> None:
    with (
        pytest.raises(SourceError, match=r"slurm\.ca_file .*none"),
        client("https://127.0.0.1:1", ca_file=tmp_path / "none"),
    ):
        pass


@pytest.mark.parametrize("shape", SHAPES)
def test_hostile_text_stays_text(double: Restd, shape: str) -> None:
    hostile = "\x1b]0;\x07\u202e<script>&\n\"'" * 10
    double.says(
        "slurm/jobs", json.loads(json.dumps(answer(shape, "jobs", [job(shape, name=hostile, comment=hostile)])))
    )
    with client(double.url) as source:
        table = source.jobs(None, Nonsense())
        assert table is not None
        assert table.jobs[3].name == hostile
