"""The limits of a phase that follow from plan, host, checks and labels, as computed sentences."""

from __future__ import annotations

from collections import Counter

from analysis.checks import marked_blocks
from analysis.intervals import coverage_words
from analysis.report import PhaseReport
from analysis.sentences import listed


def computed_limits(report: PhaseReport) -> list[str]:
    """Every limit that the record itself shows, most binding first; each a complete sentence."""
    return [
        *missing_runs(report),
        *deviations(report),
        host(report),
        server(report),
        blocks(report),
        multiplicity(report),
        checks(report),
        labels(report),
        *metric_scopes(report),
    ]


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
        f"Deviation since the seal: the {what} differs in {len(files)} file{'s' * (len(files) > 1)} from what was "
        "sealed; python -m runner verify lists them."
        for what, files in report.deviations.items()
    ]


def host(report: PhaseReport) -> str:
    """One host, and who shares its CPUs."""
    identity = report.store.read_json(report.store.host_path)["identity"]
    details = report.store.read_json(report.store.host_path)["details"]
    groups = report.plan.host.cpus
    virtual = " a virtual machine," if details["hypervisor"] else ""
    text = f"One host,{virtual} {identity['cpu_model']} with CPUs {identity['cpus']}: nothing here says how another would do."
    if groups.housekeeping == groups.server:
        text += f" The runner shares CPU {groups.server} with the server; it sleeps while a process is timed."
    return text


def server(report: PhaseReport) -> str:
    """One server, how durable, how far away."""
    engine, network = report.plan.engine, report.plan.network
    if engine.kind == "none":
        return "No server takes part."
    durable = engine.settings.get("fsync", "on") != "off" and engine.settings.get("synchronous_commit", "on") != "off"
    place = {"memory": "its data in memory", "disk": "its data on disk"}[engine.storage]
    between = {"veth": "over a veth pair on the same host", "loopback": "over the loopback interface"}[network.kind]
    version = report.seal.content["engine"].get("version", engine.kind)
    return (
        f"One server, {version}, {place}, {'durable' if durable else 'no durable'} commits, reached {between}: "
        "no replication and no network between machines."
    )


def blocks(report: PhaseReport) -> str:
    """How many blocks, and what the intervals cover at that number."""
    count = report.phase.blocks
    level = report.plan.statistics.level
    percentile, t = coverage_words("percentile", count, level), coverage_words("t", count, level)
    return (
        f"{count} blocks give limited resolution. The {report.primary} interval leads, as preregistered; "
        f"the percentile interval is {percentile}; the t interval {t} (both simulated, under normal block noise)."
    )


def multiplicity(report: PhaseReport) -> str:
    """What is corrected and what is not, and what is left below .05."""
    family = [e for e in report.estimates if e.holm_p is not None]
    small = [f"{e.contrast} {e.case} (p {e.holm_p:.3g})" for e in family if e.holm_p is not None and e.holm_p < 0.05]
    left = f"{len(small)} below .05: {listed(small)}" if small else "none below .05"
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
    return [
        f"{metric.unit}: {metric.scope}." + (" A mean, not a percentile." if metric.unit == "ns/op" else "")
        for metric in report.phase.metrics
    ]
