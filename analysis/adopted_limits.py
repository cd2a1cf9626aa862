"""The limits of a phase whose logs were made elsewhere: what nobody knows of them, and what each unknown forbids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from analysis import limits
from analysis.adopted_logs import runs_of, said_by_logs
from analysis.intervals import coverage_words
from analysis.intervals import covers as covered
from analysis.report import OURS, PhaseReport, undefined_statistics
from analysis.sentences import listed
from runner.plan import Plan

FORBIDS = {
    "host": (
        "The host is unknown: an absolute value here belongs to no machine that could be named, nothing shows that all runs "
        "had the same one, and nothing says how another would do."
    ),
    "environment": (
        "What was around the processes is unknown, such as load, CPU frequency and environment variables: no check was made "
        "that could have marked a run, and none can be made now."
    ),
    "engine": (
        "Whether a server took part, which one and with what settings, is unknown beyond what the plan says: nothing here can "
        "be laid to it, or be repeated on the same one for sure."
    ),
    "trees": (
        "What code was executed is unknown beyond what the plan says: an arm is a name, no digest ties it to a commit or to "
        "a set of packages, and two arms may have been the same."
    ),
}

UNVERIFIED = {
    "host": (
        "The host is the one of a record that came with the logs; nobody verified here that the runs were made on it, and "
        "nothing says how another would do."
    ),
    "trees": (
        "Which code was executed is what the plan says; nobody verified here that it was: no digest ties a run to a commit or "
        "to a set of packages."
    ),
    "engine": "Which server took part, and with which settings, is what the plan says; nobody verified here that it did.",
}
HOST_LINES = ("goos", "goarch", "cpu")
PREREGISTRATION = (
    "Nothing was preregistered with us: the plan came into this folder after the runs were made, so that its claims, its "
    "contrasts and its choice of cases may have been written with the results in sight."
)


VERIFIED = (
    "This page was made from a folder that verifies: its files are those that were adopted. That cannot show where they "
    "came from or what was done to them before; the book's page on limits lists what verify cannot promise."
)


def computed(report: PhaseReport) -> list[str]:
    """Every limit that the record of the adoption shows, most binding first; each a complete sentence."""
    return [
        taken_in(report),
        *runs(report),
        *shared_processes(report),
        *hosts_differ(report),
        *limits.deviations(report),
        *([blocks(report)] if report.runs else []),
        *([order(report)] if report.runs and not report.ordered else []),
        *unknown(report),
        PREREGISTRATION,
        *ours(report.plan),
        limits.multiplicity(report),
        f"Labels: {report.labels.sentence()}",
        *restored(report),
        VERIFIED,
        *limits.metric_scopes(report),
    ]


def shared(plan: Plan, reports: Mapping[str, PhaseReport]) -> list[str]:
    """What limits every phase of an adopted campaign; ``reports`` as in `limits.shared`."""
    first = next(iter(reports.values()))
    names = list(plan.phases)
    across = ["No contrast across phases: each asks another question."] if len(names) > 1 else []
    unpaired = [name for name, report in reports.items() if not report.paired]
    pairs = [f"Without known blocks, so without paired estimates: {limits.phase_words(unpaired)}."] if unpaired else []
    unordered = [name for name, report in reports.items() if not report.ordered]
    orders = [f"The order of the runs, and with it any drift, is unknown in {limits.phase_words(unordered)}."]
    return [
        taken_in(first),
        *pairs,
        *(orders if unordered else []),
        *unknown(first),
        PREREGISTRATION,
        *ours(plan),
        *across,
        *limits.deviations(first),
    ]


def restored(report: PhaseReport) -> list[str]:
    """Which cases had lost their labels."""
    assert report.adoption
    cases = report.adoption.restored(report.identifier)
    if not cases:
        return []
    return [
        f"Labels of {listed(cases)} were lost and restored from the plan and the raw logs before the logs came here; "
        "no value was changed. restored.json, which came along, says in how many rows."
    ]


def unknown(report: PhaseReport) -> list[str]:
    """What nobody knows, and what the plan alone says, each with what it forbids."""
    assert report.adoption
    names = report.adoption.unknown
    alone = [text for name, text in UNVERIFIED.items() if name not in names]
    return [*(text for name, text in FORBIDS.items() if name in names), *alone]


def hosts_differ(report: PhaseReport) -> list[str]:
    """That the logs themselves name more than one host."""
    told = []
    for key, by_arm in said_by_logs(report).items():
        if key in HOST_LINES and len({value for values in by_arm.values() for value in values}) > 1:
            named = "; ".join(f"{arm}: {', '.join(values)}" for arm, values in by_arm.items())
            told.append(f"{key} ({named})")
    if not told:
        return []
    return [
        f"The logs were made on different hosts, by their own lines of {listed(told)}: whatever these differ in is in every "
        "ratio between runs of one and runs of another."
    ]


def taken_in(report: PhaseReport) -> str:
    """That nothing here was executed by the runner of this book."""
    content = report.seal.content
    return (
        f"Adopted, not executed here: the logs were made elsewhere, and were taken in on {content['adopted'][:10]} from "
        f"the folder {content['source']} as they were. That they are all that was measured, and are as they were written, rests on "
        "whoever brought them."
    )


def runs(report: PhaseReport) -> list[str]:
    """How many runs the logs show, and which of them failed."""
    if not report.runs:
        return ["No log of this phase was taken in."]
    total, lost = len(report.runs), Counter(report.data.missing.values())
    told = "; ".join(f"{count} x {reason}" for reason, count in lost.most_common())
    results = f"{lost.total()} of them without a result: {told}" if lost else "all with a result"
    return [
        f"The adopted logs show {total} runs of this phase, {results}. Of runs that are not in them nothing is known."
    ]


def shared_processes(report: PhaseReport) -> list[str]:
    """That cases which lie in one file may be of one process, which the harness here never does."""
    cases: dict[str, set[str]] = {}
    for run in runs_of(report):
        cases.setdefault(run.file, set()).add(run.labels.case)
    several = sum(len(names) > 1 for names in cases.values())
    if not several:
        return []
    return [
        f"{several} of {len(cases)} files hold{'s' * (several == 1)} several cases. Cases that one process measured share what "
        "happened to it: their estimates are not independent of each other, and an earlier case may have left something "
        "behind for a later one."
    ]


def blocks(report: PhaseReport) -> str:
    """What pairs the arms, or that nothing does."""
    if not report.paired:
        planned = report.statistics.primary
        instead = f" The plan has the {planned} interval lead, which cannot be had." if planned != "t" else ""
        return (
            "Blocks are unknown: no run of one arm belongs to a run of the other. So there is no paired estimate, no "
            "percentile interval and no leaving out of a block; the interval is Welch's t on the logs of the processes' "
            "medians, and a change of the host between the arms cannot be told from a difference of the arms."
            f"{instead}"
        )
    level = report.statistics.level
    counts = sorted({len(estimate.blocks) for estimate in report.estimates if estimate.blocks})
    covers = "; ".join(coverage_words("percentile", count, level) for count in counts)
    simulated = level == 0.95 and any(covered("percentile", count) for count in counts)
    pairing = (
        ""
        if report.ordered
        else " That the runs of one block were made one after the other is not known: where they were not, a block is a number, "
        "and what changed between its runs is in its ratio."
    )
    return (
        f"Which runs are one block is taken from the names of the files.{pairing} {listed(map(str, counts)) or 'No'} "
        f"block{'s' * (counts != [1])} give{'s' * (counts == [1])} limited resolution; the {report.primary} interval leads; a "
        f"percentile interval is {covers or 'not computed'}{' (simulated, under normal block noise)' if simulated else ''}."
    )


def order(report: PhaseReport) -> str:
    """What an unknown order forbids."""
    also = " Nor can arms be said to have had the same place in it on average." if report.paired else ""
    return (
        "The order of the runs is unknown: whether the host drifted while they were made, and which arm that would favour, "
        f"cannot be looked for, and no estimate carries a warning of it.{also}"
    )


def ours(plan: Plan) -> list[str]:
    """Statistics that the plan leaves undefined, with what was chosen in their place."""
    names = undefined_statistics(plan)
    if not names:
        return []
    told = listed(f"{name} {OURS[name]}" for name in names)
    return [f"The plan does not define {listed(names)}; chosen here, for every such plan alike: {told}."]


def method(plan: Plan, reports: Mapping[str, PhaseReport]) -> list[str]:
    """How the estimates of an adopted campaign come about; ``reports`` as in `limits.shared`."""
    statistics = next(iter(reports.values())).statistics
    paired = [name for name, report in reports.items() if report.paired]
    unpaired = [name for name in reports if name not in paired]
    told = ["A run's value is the median of its repeats."]
    if paired:
        told.append(
            f"In {limits.phase_words(paired)} the blocks are known: a ratio is the geometric mean over blocks of the block's "
            f"ratio; the {statistics.primary} interval leads, at level {statistics.level:g}, and a percentile interval comes "
            f"from {statistics.resamples} resamples with seed {statistics.seed}."
        )
    if unpaired:
        told.append(
            f"In {limits.phase_words(unpaired)} no blocks are known: a ratio is that of the arms' geometric means over "
            f"processes, and its interval is Welch's t, unpaired, at level {statistics.level:g}."
        )
    return [" ".join(told), *ours(plan)]
