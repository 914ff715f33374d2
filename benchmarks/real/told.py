"""What was compared, for people: every run, users and their histogram, and the figures that are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from benchmarks import results
from benchmarks.box.scoring.ratios import quantile
from benchmarks.real.analyzed import RULES, Analyzed
from benchmarks.real.chain import Chain
from benchmarks.real.comparison import BINS, Pair, Seen, Usage, clock, hours_by_bin, moved, pairs, users_by_bin
from benchmarks.real.runs import Recorded, Run
from benchmarks.results import Row


def compared(runs: Sequence[Run], analyzed: Analyzed, chain: Chain) -> dict[str, list[Pair]]:
    """The pairs of every run."""
    return {
        run.workload: pairs(analyzed.incidents.get(run.workload, ()), chain.incidents.get(run.workload, ()))
        for run in runs
    }


def disagreements(found: Mapping[str, Sequence[Pair]]) -> dict[str, list[Pair]]:
    """Of each run that has any."""
    return {name: bad for name, each in found.items() if (bad := [pair for pair in each if not pair.agrees])}


def show_runs(runs: Sequence[Run], found: Mapping[str, Sequence[Pair]], analyzed: Analyzed, chain: Chain) -> None:
    header = ("run", "user", "GPUs", "length", "longest hole", "mean %", "analyze", "chain", "difference")
    lines = [
        (
            run.workload,
            run.user,
            len(run.tracks),
            clock(run.length),
            f"{run.longest_hole:.0f} s" if run.longest_hole > 1.5 * run.tracks[0].interval else None,
            f"{_mean(run):.1f}",
            _said(analyzed.incidents.get(run.workload, ())),
            _said(chain.incidents.get(run.workload, ())),
            "; ".join(pair.difference for pair in found[run.workload] if not pair.agrees)
            or ("" if found[run.workload] else None),
        )
        for run in runs
    ]
    results.show(header, lines, title="Every run (times are hours and minutes of the run)")


def _mean(run: Run) -> float:
    seconds = sum(len(track.rows) * track.interval for track in run.tracks)
    busy = sum(row.utilization * track.interval for track in run.tracks for row in track.rows)
    return 100 * busy / seconds


def _said(incidents: Sequence[Seen]) -> str | None:
    return ", ".join(map(str, incidents)) or None


def show_stories(found: Mapping[str, Sequence[Pair]], chain: Chain) -> None:
    """What the chain's incidents went through in the runs that differ."""
    lines = [
        (name if number == 0 else "", line)
        for name in disagreements(found)
        for number, line in enumerate(chain.stories.get(name, ()))
    ]
    if lines:
        results.show(("run", "what happened in the chain"), lines, title="Runs that differ")


def show_users(analyzed: Analyzed, chain: Chain) -> None:
    """The histogram by all three, and each user."""
    ours, ledger = users_by_bin(analyzed.users), users_by_bin(chain.ledger)
    weighted = hours_by_bin(analyzed.users), hours_by_bin(chain.ledger)
    lines = [
        (
            f"{5 * place} to {5 * place + 5} %",
            *(counts[place] for counts in (ours, ledger, chain.histogram)),
            *(f"{hours[place]:.2f}" for hours in (*weighted, chain.hours)),
        )
        for place in range(BINS)
        if any(counts[place] for counts in (ours, ledger, chain.histogram))
    ]
    header = ("mean", "users: analyze", "ledger", "Prometheus", "GPU-hours: analyze", "ledger", "Prometheus")
    results.show(header, lines, title="Users by mean utilization")
    users = [
        (
            user,
            *(_usage(users.get(user)) for users in (analyzed.users, chain.ledger)),
            "other bin" if user in moved(analyzed.users, chain.ledger) else "",
        )
        for user in sorted({*analyzed.users, *chain.ledger})
    ]
    results.show(("user", "analyze", "ledger", ""), users, title="Users")


def _usage(usage: Usage | None) -> str | None:
    if usage is None or usage.mean is None:
        return None
    return f"{usage.observed / 3600:.3f} h at {100 * usage.mean:.2f} %"


def show_jobs(runs: Sequence[Run], chain: Chain) -> None:
    """What the ledger has of jobs, by their length."""
    lines = []
    bounds = (0.0, 60.0, 300.0, 1800.0, 3600.0, float("inf"))
    for low, high in pairwise(bounds):
        members = [run for run in runs if low <= run.length < high]
        if not members:
            continue
        errors, absent = [], 0
        for run in members:
            row = chain.jobs.get(run.workload)
            absent += row is None
            had = run.length * len(run.tracks)
            errors.append(((0.0 if row is None else row.observed) - had) / had)
        worst = max(errors, key=abs)
        named = f"{low / 60:g} to {high / 60:g} min" if high < float("inf") else f"from {low / 60:g} min"
        lines.append(
            (named, len(members), absent, *(f"{100 * value:+.2f} %" for value in (quantile(errors, 0.5) or 0.0, worst)))
        )
    results.show(
        ("length", "runs", "not in the ledger", "median", "worst"),
        lines,
        title="Observed GPU-seconds in the ledger beside those that were played",
    )


def rows(
    recorded: Recorded,
    runs: Sequence[Run],
    found: Mapping[str, Sequence[Pair]],
    analyzed: Analyzed,
    chain: Chain,
) -> list[Row]:
    """For RESULTS.md, without their stamps. `runs` are those of `recorded` that were played."""
    users, hours = len({run.user for run in runs}), sum(run.gpu_hours for run in runs)
    made = sum(run.made_hours for run in runs)
    failed = f"; **{chain.failed} passes of the alerter failed**" if chain.failed else ""
    played = (
        f"{len(runs)} runs of {users} users, {hours:,.0f} GPU-hours, and {made:,.1f} made for missing rows"
        f"{_left_out(recorded, runs)}; {chain.how}; one alerter on SQLite; rules {', '.join(RULES)} (the others have "
        f"no evidence in it){failed}"
    )
    figures = {
        "what was played": played,
        "incidents of both under the same rule, opened within two minutes": _incidents(found),
        "seconds between the two openings of an incident": _spread(found),
        "histogram of users beside analyze's": _histograms(analyzed, chain),
    }
    return [Row(f"recorded runs: {what}", figure) for what, figure in figures.items()]


def _left_out(recorded: Recorded, runs: Sequence[Run]) -> str:
    """How many runs of the file were not played, and why."""
    why = {reason: len(names) for reason, names in recorded.apart.items()}
    if others := len(recorded.runs) - len(runs):
        why["not asked for"] = others
    if not why:
        return ""
    listed = ", ".join(f"{number} ({reason})" for reason, number in why.items())
    return f"; {sum(why.values())} runs left out: {listed}"


def users_moved(analyzed: Analyzed, chain: Chain) -> list[str]:
    """Users whom the ledger has in another bin; or all, where only the dashboard's query counts others."""
    from_ledger = moved(analyzed.users, chain.ledger)
    return from_ledger or (sorted(analyzed.users) if users_by_bin(analyzed.users) != chain.histogram else [])


def _incidents(found: Mapping[str, Sequence[Pair]]) -> str:
    each = [pair for pairs_of_run in found.values() for pair in pairs_of_run]
    rules = Counter(pair.analyzed.rule for pair in each if pair.analyzed is not None)
    named = ", ".join(f"{count} {rule}" for rule, count in sorted(rules.items()))
    alone = sum(pair.analyzed is None for pair in each)
    return (
        f"{sum(pair.agrees for pair in each)} of analyze's {rules.total()} ({named}); {alone} of the chain alone; "
        f"{len(disagreements(found))} of {len(found)} runs differ"
    )


def _spread(found: Mapping[str, Sequence[Pair]]) -> str:
    apart = [abs(pair.apart) for each in found.values() for pair in each if pair.apart is not None]
    if not apart:
        return "-"
    return f"median {quantile(apart, 0.5):.0f}, 90 % {quantile(apart, 0.9):.0f}, worst {max(apart):.0f}"


def _histograms(analyzed: Analyzed, chain: Chain) -> str:
    """Users by bin, from the ledger and by the dashboard's query; and their GPU-hours by bin."""
    same = not moved(analyzed.users, chain.ledger), users_by_bin(analyzed.users) == chain.histogram
    words = ["the same" if one else "not the same" for one in same]
    hours = hours_by_bin(analyzed.users)
    apart = [
        sum(abs(a - b) for a, b in zip(hours, other, strict=True)) / max(1e-9, sum(hours))
        for other in (hours_by_bin(chain.ledger), chain.hours)
    ]
    worst = max((abs(difference) for difference in _means_apart(analyzed, chain)), default=0.0)
    return (
        f"from the ledger {words[0]}, by the dashboard's query from Prometheus {words[1]}; GPU-hours by bin differ by "
        f"{100 * apart[0]:.2f} and {100 * apart[1]:.2f} % of all; a user's mean by {100 * worst:.2f} points at most"
    )


def _means_apart(analyzed: Analyzed, chain: Chain) -> Iterable[float]:
    for user, usage in analyzed.users.items():
        other = chain.ledger.get(user)
        if usage.mean is not None and other is not None and other.mean is not None:
            yield other.mean - usage.mean
