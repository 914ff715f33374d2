"""Ranks that are apart: what a stalled or underused job waits for is then told by which of them work."""

from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import HostUsage, Job, JobEvidence, WindowEvidence
from tests.alerter.cases import NO_HOST, evidence, job, usage
from tests.alerter.rules.spinning import at_power
from tests.alerter.rules.test_diagnosis import diagnosis
from tests.alerter.rules.verdicts import NO_GAPS, gaps

STRAGGLER, LOADING, SMALL, HOT = Cause.COMMUNICATION, Cause.DATA_LOADING, Cause.SMALL_WORK, Cause.THROTTLING
THREE = [LOADING, STRAGGLER, SMALL]
STARVED = HostUsage(io_pressure=0.2)
Fields = dict[str, object]

FED, WAITS, UNMEASURED = NO_GAPS, gaps(0.5), {"gap_30to600_share": 0.0}
HALF: Fields = {"share": 0.5}


def ranks(utilizations: list[float], parts: list[Fields], host: HostUsage = NO_HOST, **fields: object) -> JobEvidence:
    """Each GPU with fields of its own, as `cases.usage` takes them; None is not measured."""

    def window(length: float) -> WindowEvidence:
        found = [
            usage(value, length, **{name: given for name, given in part.items() if given is not None})  # type: ignore[arg-type]
            for value, part in zip(utilizations, parts, strict=True)
        ]
        return WindowEvidence(length, tuple(found), host)

    return replace(evidence(utilizations, **fields), window=window)  # type: ignore[arg-type]


def powered(fields: Fields, utilization: float, while_busy: float) -> Fields:
    """With kernels that draw so much of the way from idle power to the limit."""
    return fields | at_power(70 + 600 * while_busy * utilization)


def case(
    utilizations: list[float] = [0.8, 0.4],  # noqa: B006 - not changed
    busiest: Fields = FED,
    *,
    draws: tuple[float, ...] = (0.6, 0.6),
    host: HostUsage = NO_HOST,
    hot: tuple[int, ...] = (),
    unknown: tuple[int, ...] = (),
    slowest: Fields = {},  # noqa: B006 - not changed
    **fields: object,
) -> JobEvidence:
    """The first GPU as `busiest`, the others with gaps of half of the time; of those in `hot` clocks are held down, of
    those in `unknown` nobody knows. `slowest` are fields of the last one.
    """
    parts = []
    for place, utilization in enumerate(utilizations):
        found = dict(busiest if place == 0 else WAITS)
        if draws:
            found = powered(found, utilization, draws[min(place, len(draws) - 1)])
        parts.append(found | {"throttle_thermal_share": None if place in unknown else 0.05 if place in hot else 0.0})
    parts[-1] |= slowest
    return ranks(utilizations, parts, host, **fields)


def of_models(*models: str) -> Job:
    alike = job(len(models))
    return replace(alike, gpus=tuple(replace(gpu, model=model) for gpu, model in zip(alike.gpus, models, strict=True)))


def with_pause(name: str, share: float | None) -> Fields:
    """A busiest GPU without gaps but those of this length."""
    return NO_GAPS | {name: share}


STALLED = [
    ("the busiest is at work, and the others wait for it", case(), [STRAGGLER]),
    ("as alike as uneven asks for", case([0.8, 0.4801]), THREE),
    ("just apart", case([0.8, 0.48]), [STRAGGLER]),
    ("all wait, some more", case(busiest=gaps(0.12)), [STRAGGLER, LOADING]),
    ("hardly waits", case(busiest=gaps(0.1199)), [STRAGGLER]),
    ("nobody knows whether it waits", case(busiest=UNMEASURED), [STRAGGLER, LOADING]),
    # Whatever it stands still for, it is not at work then.
    ("it pauses for most of the time", case([0.35, 0.2], with_pause("gap_30to600_share", 0.6)), [STRAGGLER, LOADING]),
    ("it stood still in one piece", case([0.35, 0.2], with_pause("gap_ge600_share", 0.6)), [STRAGGLER, LOADING]),
    ("it hardly pauses", case([0.35, 0.2], with_pause("gap_30to600_share", 0.119)), [STRAGGLER]),
    ("nobody knows whether it pauses", case(busiest=with_pause("gap_30to600_share", None)), [STRAGGLER, LOADING]),
    ("nobody knows whether it stood still", case(busiest=with_pause("gap_ge600_share", None)), [STRAGGLER, LOADING]),
    # It spins while the other one waits for its own data.
    ("the busiest draws less", case(draws=(0.47, 0.6)), [STRAGGLER, LOADING]),
    ("hardly less", case(draws=(0.49, 0.6)), [STRAGGLER]),
    ("less, and perhaps a hot one", case(draws=(0.2, 0.6), unknown=(0,)), [STRAGGLER, LOADING]),
    ("as much, and perhaps a hot one", case(unknown=(0,)), [STRAGGLER]),
    ("nobody knows what it draws", case(draws=()), [STRAGGLER, LOADING]),
    # The power of a GPU is that of all who share it, and that of another model says nothing.
    ("others work on the busiest, too", case(busiest=FED | HALF), [STRAGGLER, LOADING]),
    ("others work on the slowest, too", case(slowest=HALF), [STRAGGLER, LOADING]),
    ("others work on the one whose gaps they fill", case(busiest=FED | HALF, hot=(0,)), [HOT, LOADING]),
    ("of several models", case(the_job=of_models("H100", "A100")), [STRAGGLER, LOADING]),
    ("under limits of their own", case(slowest={"power_limit": 1400.0}), [STRAGGLER, LOADING]),
    ("one in the middle is of another model", case([0.8, 0.6, 0.4], the_job=of_models("A", "B", "A")), [STRAGGLER]),
    ("loaders cannot keep up, and ranks are apart", case(busiest=gaps(0.3), host=STARVED), [LOADING]),
    ("what is read ahead waits for storage, too", case(host=STARVED), [LOADING, STRAGGLER]),
    ("loaders cannot keep up, and it spins", case(draws=(0.2, 0.6), host=STARVED), [LOADING]),
    ("a hot one is waited for", case(hot=(0,)), [HOT]),
    # Clocks that are held down draw little: no sign of spinning.
    ("a hot one draws less", case(draws=(0.2, 0.6), hot=(0,)), [HOT]),
    ("all others are hot", case([0.8, 0.4, 0.4], hot=(1, 2)), [HOT]),
    ("one of the others is hot", case([0.8, 0.4, 0.4], hot=(1,)), [HOT, STRAGGLER]),
    ("a hot one waits as well", case(busiest=gaps(0.3), hot=(0,)), [HOT, LOADING]),
    ("all are hot", case(hot=(0, 1)), [HOT, STRAGGLER]),
    # Who does nothing is waited for by nobody, and ranks that differ by design do not straggle.
    ("one GPU is not used", case([0.8, 0.005]), THREE),
    ("one is hardly used", case([0.8, 0.0051]), [STRAGGLER]),
    ("declared", case(expect_uneven=True), THREE),
    ("the busiest does little", case([0.29, 0.1]), THREE),
    ("one GPU has nobody to wait for", case([0.4], busiest=WAITS), [LOADING, SMALL]),
]


@pytest.mark.parametrize(("item", "causes"), [one[1:] for one in STALLED], ids=[one[0] for one in STALLED])
def test_stalled(item: JobEvidence, causes: list[Cause]) -> None:
    assert list(diagnosis("stalled", item).causes) == causes


def without_gaps(utilizations: list[float], **fields: object) -> JobEvidence:
    parts = [powered(FED, value, 0.3) for value in utilizations]
    return ranks(utilizations, parts, **fields)


@pytest.mark.parametrize(
    ("item", "causes"),
    [
        (without_gaps([0.2, 0.2]), [SMALL]),
        (without_gaps([0.29, 0.17]), [STRAGGLER, SMALL]),
        (without_gaps([0.29, 0.18]), [SMALL]),
        (without_gaps([0.29, 0.17], expect_uneven=True), [SMALL]),
        (evidence([0.29, 0.17], gpu_fields=gaps(0.15)), [STRAGGLER, SMALL, LOADING]),
        (
            evidence([0.29, 0.17], gpu_fields=gaps(0.15) | {"throttle_thermal_share": 0.05}),
            [HOT, STRAGGLER, SMALL, LOADING],
        ),
        # The gaps are those of the ranks that wait.
        (
            ranks([0.28, 0.16], [powered(FED, 0.28, 0.3), powered(gaps(0.38), 0.16, 0.3)]),
            [STRAGGLER, SMALL],
        ),
    ],
)
def test_underused(item: JobEvidence, causes: list[Cause]) -> None:
    assert list(diagnosis("underused", item).causes) == causes


APART = "the slowest GPU worked 50 % less than the busiest"


@pytest.mark.parametrize(
    ("item", "line"),
    [
        (case(), f"{APART}, which hardly paused and drew as much for its work"),
        (case(hot=(0,), draws=(0.2, 0.6)), f"{APART}, which hardly paused"),
        (case(draws=(0.2, 0.6)), f"{APART}, which hardly paused and drew less for its work: it spins, and waits"),
        # Perhaps its clocks are held down.
        (case(draws=(0.2, 0.6), unknown=(0, 1)), f"{APART}, which hardly paused"),
        (case(draws=(0.6, 0.6), unknown=(0, 1)), f"{APART}, which hardly paused and drew as much for its work"),
        # Loaders cannot keep up: each may wait for its own.
        (case(busiest=gaps(0.3), host=STARVED), APART),
        (case(draws=()), f"{APART}, which hardly paused"),
        (case(busiest=UNMEASURED), APART),
    ],
)
def test_the_evidence_says_what_the_busiest_does(item: JobEvidence, line: str) -> None:
    found = diagnosis("stalled", item).evidence
    assert [one for one in found if one.startswith("the slowest")] == [line]
    assert "node0:0 80 %, node0:1 40 %" in found


@pytest.mark.parametrize(
    ("long", "causes"),
    [
        # Without its long idling it worked as much as the other.
        (0.6, [Cause.OVER_REQUEST, STRAGGLER]),
        (0.2, [STRAGGLER]),
        (None, [STRAGGLER]),
        (1.0, [STRAGGLER]),
    ],
)
def test_uneven_only_because_a_gpu_did_nothing_for_a_while(long: float | None, causes: list[Cause]) -> None:
    item = ranks([0.9, 0.36], [{"gap_ge600_share": 0.0}, {"gap_ge600_share": long}])
    assert list(diagnosis("uneven", item).causes) == causes


@pytest.mark.parametrize(
    ("item", "step"),
    [
        (case(), ["Begin with the busiest GPU, at 80 %: the others wait for it."]),
        (
            case(draws=(0.2, 0.6)),
            ["Begin with the slowest GPU, at 40 %: the busiest, at 80 %, spins and waits for it."],
        ),
        # Nobody knows who waits for whom.
        (case(draws=()), []),
        (case(draws=(0.2, 0.6), unknown=(0,)), []),
        (case(busiest=gaps(0.3)), []),
        (case(busiest=gaps(0.3), draws=(0.2, 0.6)), []),
        (case(busiest=UNMEASURED, draws=(0.2, 0.6)), []),
        (case(busiest=FED | HALF, draws=(0.2, 0.6)), []),
    ],
)
@pytest.mark.parametrize("rule", ["stalled", "uneven"])
def test_where_to_begin(item: JobEvidence, step: list[str], rule: str) -> None:
    assert [line for line in diagnosis(rule, item).advice if line.startswith("Begin")] == step


def test_nobody_begins_with_a_gpu_that_was_perhaps_not_meant_to_work() -> None:
    item = ranks([0.9, 0.36], [powered(FED, 0.9, 0.3), powered(with_pause("gap_ge600_share", 0.6), 0.36, 0.3)])
    found = diagnosis("uneven", item)
    assert found.causes == (Cause.OVER_REQUEST, STRAGGLER)
    assert not any(line.startswith("Begin") for line in found.advice)


def test_ranks_that_are_alike_have_none_to_begin_with() -> None:
    assert not any(line.startswith("Begin") for line in diagnosis("stalled", case([0.8, 0.4801])).advice)
