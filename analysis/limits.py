"""The limits of a phase that follow from plan, host, checks and labels, as computed sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from analysis import amendments, delays, page_trees
from analysis.checks import marked_blocks
from analysis.intervals import coverage_words, covers
from analysis.report import PhaseReport
from analysis.sentences import block_words, listed
from runner.plan import Engine, Network, Plan


def computed_limits(report: PhaseReport) -> list[str]:
    """Every limit that the record itself shows, most binding first; each a complete sentence."""
    if report.adoption:
        from analysis import adopted_limits

        return adopted_limits.computed(report)
    stop = stopped(report)
    return [
        *([stop] if stop else []),
        *missing_runs(report),
        *amendments.sentences(report.history, report.identifier),
        *deviations(report),
        *page_trees.same_binaries(report.seal, report.identifier),
        host(report),
        server(report),
        *open_server(report.engine, report.network),
        *(delays.sentences(report) if report.network.delay_us else []),
        *clients(report),
        blocks(report),
        multiplicity(report),
        checks(report),
        wrong_answers(report.plan),
        labels(report),
        VERIFIED,
        *metric_scopes(report),
    ]


VERIFIED = (
    "This page was made from a folder that verifies: nothing in it disagrees with its seal, its journal and its manifest. "
    "That cannot show that the folder was not rewritten as a whole, unless the seal's digest was published before the first "
    "run and the manifest's at the close, nor that host and clocks told the truth; the book's page on limits lists what "
    "verify cannot promise."
)


def open_server(engine: Engine, network: Network) -> list[str]:
    """That a server without passwords listened where any process of the host reaches it."""
    if engine.kind == "foundationdb" and network.kind == "loopback":
        return [
            "The server asks no password and listened on the host's loopback interface: any process of the host could have "
            "reached it. With network.kind = veth it is reached from its namespaces alone."
        ]
    return []


def stopped(report: PhaseReport) -> str | None:
    """That the phase stopped early, why, and what of it was analysed; None where it ran to its end."""
    reason = report.ledger.stopped.get(report.identifier)
    if reason is None:
        return None
    arms, void = set(report.arms), {key[1:] for key in report.ledger.void if key[0] == report.identifier}
    told, nothing = [], []
    for case in report.cases:
        whole = [
            number
            for number in report.data.blocks.get(case, ())
            if (case, number) not in void and not any((case, number, arm) in report.data.missing for arm in arms)
        ]
        if whole:
            told.append(f"{case} {block_words(whole)} of {report.phase.blocks}")
        else:
            nothing.append(case)
    analysed = "; ".join(told) if told else "nothing"
    without = f" Without a complete block: {listed(nothing)}." if told and nothing else ""
    return f"This phase stopped early: {reason}. Analysed, as complete blocks: {analysed}.{without}"


def wrong_answers(plan: Plan) -> str:
    """What the plan says that happens on a wrong answer."""
    after = {
        "stop-phase": "stops its phase: what was complete by then is analysed, and nothing more is executed",
        "go-on": "is a failed run, kept and never repeated; its phase goes on",
    }[plan.rules.wrong_answer]
    return f"Rule for wrong answers, chosen before the first run: a run that gives one {after}."


def clients(report: PhaseReport) -> list[str]:
    """What a closed loop, and several workers in one interpreter, cannot show."""
    told = []
    if report.latency_cases:
        told.append(
            "Latencies are those of a closed loop: a worker sends its next operation when the one before has ended, so "
            "that a stall holds back operations that would have been slow too (coordinated omission). The tail that an "
            "open load would see can be longer than the percentiles here."
        )
    many: dict[object, list[str]] = {}
    for case in report.cases:
        workers = report.plan.parameters_of(report.identifier, case).get("workers", 1)
        if isinstance(workers, int) and workers > 1:
            many.setdefault(workers, []).append(case)
    told += [
        f"{count} workers are threads of one CPython process in {listed(cases)}: they share its interpreter lock, so that "
        "one's work on the CPU is another's waiting; nothing here says how as many processes would do."
        for count, cases in many.items()
    ]
    return told


def missing_runs(report: PhaseReport) -> list[str]:
    """Runs without a result, by reason."""
    reasons = Counter(report.data.missing.values())
    if not reasons:
        return [f"All {len(report.runs)} planned runs have a result; none failed, none was repeated."]
    total = sum(reasons.values())
    planned = sum(labels.phase == report.identifier for labels in report.ledger.labels())
    told = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common())
    return [f"{total} of {planned} runs have no result: {told}. Estimates use complete blocks only."]


def deviations(report: PhaseReport) -> list[str]:
    """What differs today from what was sealed."""
    return [
        f"Deviation since the {'adoption' if report.adoption else 'seal'}: the {what} differs in {len(files)} "
        f"file{'s' * (len(files) > 1)} from what was {'recorded' if report.adoption else 'sealed'}; python -m runner verify "
        "lists them."
        for what, files in report.deviations.items()
    ]


def host(report: PhaseReport) -> str:
    """One host, and who shares its CPUs."""
    identity = report.store.read_json(report.store.host_path)["identity"]
    details = report.store.read_json(report.store.host_path)["details"]
    groups = report.plan.host.cpus
    virtual = " a virtual machine," if details["hypervisor"] else ""
    text = f"One host,{virtual} {identity['cpu_model']} with CPUs {identity['cpus']}: nothing here says how another would do."
    if groups.housekeeping == groups.server and report.engine.kind != "none":
        text += f" The runner shares CPU {groups.server} with the server; it sleeps while a process is timed."
    return text


def server(report: PhaseReport) -> str:
    """One server, how durable, how far away."""
    engine, network = report.engine, report.network
    if engine.kind == "none":
        return "No server takes part."
    between = {"veth": "over a veth pair on the same host", "loopback": "over the loopback interface"}[network.kind]
    version = report.seal.content["engine"].get("version", engine.kind)
    return (
        f"One server, {version}, its {storage_words(engine)}, {commit_words(engine)}, reached {between}"
        f"{' with an added delay' if network.delay_us else ''}: no replication and no network between machines."
    )


def storage_words(engine: Engine) -> str:
    """Where the server's data lies."""
    return {"memory": "data in memory", "disk": "data on disk"}[engine.storage]


def commit_words(engine: Engine) -> str:
    """Whether a commit is on stable storage when it returns, as far as settings and storage can say."""
    settings = engine.settings
    # FoundationDB has no such settings: its log is on its storage before a commit returns, with every storage engine.
    asked = engine.kind == "foundationdb" or (
        settings.get("fsync", "on") != "off" and settings.get("synchronous_commit", "on") != "off"
    )
    if asked and engine.storage == "memory":
        return "commits that wait for storage which is memory and so not durable"
    return "durable commits" if asked else "no durable commits"


def shared(plan: Plan, reports: Mapping[str, PhaseReport]) -> list[str]:
    """What limits every phase of a campaign: one host, one server, no contrast across phases and what differs between them.

    ``reports`` are those of the campaign's phases, at least one, by name.
    """
    first = next(iter(reports.values()))
    if first.adoption:
        from analysis import adopted_limits

        return adopted_limits.shared(plan, reports)
    servers = list(dict.fromkeys(server(report) for report in reports.values()))
    one = (
        servers[0] if len(servers) == 1 else "One server in each phase: no replication and no network between machines."
    )
    return [host(first), one, *across(plan), wrong_answers(plan), *deviations(first)]


def across(plan: Plan) -> list[str]:
    """Why no contrast goes across phases; nothing for a single phase."""
    names = list(plan.phases)
    if len(names) < 2:
        return []
    if plan.engine.kind == "none":
        return ["No contrast across phases: each ran at another time."]
    text = "No contrast across phases: each has a server of its own, at another time."
    kinds: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        kinds.setdefault(_conditions(plan, name), []).append(name)
    if len(kinds) == 1:
        return [f"{text} Storage, durability and delay are the same in all: {', '.join(next(iter(kinds)))}."]
    told = "; ".join(f"{phase_words(members)}: {', '.join(kind)}" for kind, members in kinds.items())
    return [f"{text} Beyond that they differ: {told}."]


def _conditions(plan: Plan, name: str) -> tuple[str, ...]:
    """Storage, durability, delay, and the engine's other settings that are this phase's own."""
    engine, delay = plan.engine_of(name), plan.network_of(name).delay_us
    own = plan.phases[name].engine
    said = ("fsync", "synchronous_commit")
    settings = [f"{key} = {value}" for key, value in (own.settings if own else {}).items() if key not in said]
    added = f"nominal {delay} \u00b5s added each way" if delay else "no added delay"
    return storage_words(engine), commit_words(engine), added, *settings


def phase_words(names: Sequence[str]) -> str:
    """``phase A``, or ``phases A and B``."""
    return f"phase{'s' * (len(names) > 1)} {listed(names)}"


def blocks(report: PhaseReport) -> str:
    """How many blocks, and what the intervals cover at that number."""
    count = report.phase.blocks
    level = report.statistics.level
    percentile, t = coverage_words("percentile", count, level), coverage_words("t", count, level)
    simulated = " (both simulated, under normal block noise)" if level == 0.95 and covers("percentile", count) else ""
    return (
        f"{count} blocks give limited resolution. The {report.primary} interval leads, "
        f"{amendments.primary_words(report.history)}; "
        f"the percentile interval is {percentile}; the t interval {t}{simulated}."
    )


def multiplicity(report: PhaseReport) -> str:
    """What is corrected and what is not, and what is left below .05."""
    family = [e for e in report.estimates if e.holm_p is not None]
    small = [f"{e.contrast} {e.case} (p {e.holm_p:.3g})" for e in family if e.holm_p is not None and e.holm_p < 0.05]
    left = f"{len(small)} below .05: {listed(small)}" if small else "none below .05"
    if not report.phase.holm.metrics:
        return (
            f"Intervals are per case and metric, without correction for their number ({len(report.estimates)}); the plan "
            "names no family for Holm's correction."
        )
    return (
        f"Intervals are per case and metric, without correction for their number ({len(report.estimates)}). Holm's "
        f"correction over the family that the plan names ({len(family)} estimates of "
        f"{listed(report.phase.holm.metrics)}) leaves {left}."
    )


def checks(report: PhaseReport) -> str:
    """Blocks with a check that did not hold, and checks that this host does not let one make."""
    unknown = {
        check["check"].replace("_", " ")
        for record in report.runs.values()
        for check in record.get("checks", ())
        if check["holds"] is None
    }
    unmade = f" Not made, since this host does not expose them: {listed(sorted(unknown))}." if unknown else ""
    if not report.marks:
        return "Every check that was made held, before every block and during every run." + unmade
    counts = Counter(mark.check for mark in report.marks)
    told = listed(f"{check} ({count} time{'s' * (count > 1)})" for check, count in counts.most_common())
    total = sum(len(numbers) for numbers in report.data.blocks.values())
    return (
        f"{len(marked_blocks(report.marks))} of {total} blocks carry a check that did not hold: {told}. They are marked, "
        f"not dropped, since load can be the arm's own doing.{unmade}"
    )


def labels(report: PhaseReport) -> str:
    """Whether labels were restored, and how they were asserted."""
    return f"No label was restored. {report.labels.sentence()}"


def metric_scopes(report: PhaseReport) -> list[str]:
    """What each metric is, and is not."""
    told = []
    for metric in report.phase.metrics:
        cases = report.phase.cases_of(metric.unit)
        only = "" if len(cases) == len(report.cases) else f" Measured by {listed(cases)} only."
        mean = " A mean, not a percentile." if metric.unit == "ns/op" else ""
        told.append(f"{metric.unit}: {metric.scope}.{mean}{only}")
    return told
