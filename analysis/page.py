"""The sections of a phase page. A notebook cell calls one of these and shows what it returns; nothing is computed there."""

from __future__ import annotations

import ast
import importlib.metadata
import json
from collections.abc import Iterable, Mapping
from typing import Any

from analysis import figures, tables
from analysis.checks import marked_blocks
from analysis.drawing import Picture
from analysis.intervals import coverage_words, index_digest
from analysis.limits import computed_limits
from analysis.report import PhaseReport, open_report
from analysis.sentences import listed
from analysis.tables import Markup, escaped
from runner.errors import DataError

PARAMETERS = {"campaign": str, "phase": str, "seed": int, "resamples": int}


def begin(namespace: Mapping[str, Any]) -> PhaseReport:
    """Check the notebook's parameters, and open the report. The first call of every phase notebook.

    papermill only warns about a parameter that a notebook does not have; here it is an error, as is one of another type.
    Parameters are what the cells before this one assign, as IPython keeps their source in ``In``; the last entry of ``In``
    is the cell that makes this call.
    """
    given = [name for source in namespace["In"][:-1] for name in assigned(source)]
    unknown = sorted(set(given) - set(PARAMETERS))
    if unknown:
        raise DataError(
            "notebook parameters",
            f"unknown: {', '.join(unknown)}",
            expected=", ".join(PARAMETERS),
            remedy="mend the name after -p",
        )
    for name, kind in PARAMETERS.items():
        value = namespace.get(name)
        optional = name in ("seed", "resamples")
        if not (value is None and optional) and (not isinstance(value, kind) or isinstance(value, bool)):
            raise DataError(f"notebook parameter {name}", f"expected {kind.__name__}", found=repr(value))
    return open_report(namespace["campaign"], namespace["phase"], namespace.get("seed"), namespace.get("resamples"))


def assigned(source: str) -> list[str]:
    """Every name that a cell's source assigns, at any depth."""
    nodes = ast.walk(ast.parse(source))
    return [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def paragraphs(texts: Iterable[str]) -> Markup:
    """Texts as paragraphs, escaped."""
    return Markup("".join(f"<p>{escaped(text)}</p>" for text in texts))


def bullets(texts: Iterable[str], nothing: str = "") -> Markup:
    """Texts as a list, escaped; one sentence where there are none."""
    items = [f"<li>{escaped(text)}</li>" for text in texts]
    return Markup(f"<ul>{''.join(items)}</ul>") if items else paragraphs([nothing])


def claim_counts(report: PhaseReport) -> str:
    """How many claims have which status, each named."""
    by_status: dict[str, list[str]] = {}
    for claim in report.claims:
        by_status.setdefault(claim.status, []).append(claim.id)
    told = [
        f"{len(ids)} {tables.STATUS_WORDS[status]} ({', '.join(ids)})"
        for status in tables.STATUS_WORDS
        if (ids := by_status.get(status))
    ]
    return f"Of {len(report.claims)} preregistered claims: {listed(told)}." if told else "No claim was preregistered."


def answer(report: PhaseReport) -> Markup:
    """Question and answer: what happened to the claims, and one computed sentence for each contrast's primary metric."""
    primary = [sentence.text for sentence in report.sentences if sentence.metric == report.phase.primary_metric]
    question = Markup(f'<p class="bb-question">{escaped(report.phase.question)}</p>')
    return Markup(question + paragraphs([claim_counts(report), *primary]))


def forest(report: PhaseReport) -> Picture:
    """The forest plot of the primary metric: a panel for each contrast."""
    return figures.forest(
        report.estimates,
        report.contrasts,
        report.groups,
        metric=report.phase.primary_metric,
        primary=report.primary,
        arms=report.arms,
    )


def results(report: PhaseReport) -> Markup:
    """One table for each contrast."""
    return Markup(
        "".join(
            tables.results(
                report.estimates,
                contrast,
                primary=report.primary,
                cases=report.cases,
                metrics=report.metrics,
                caption=f"Ratio {contrast}: {what}",
                coverage=coverage_words("percentile", report.phase.blocks, report.plan.statistics.level),
            )
            for contrast, what in report.contrasts.items()
        )
    )


def absolutes(report: PhaseReport) -> Markup:
    """Absolute values for each arm."""
    return tables.absolutes(report.absolutes, cases=report.cases, metrics=report.metrics, arms=report.arms)


def blocks(report: PhaseReport, contrast: str) -> Picture:
    """The primary metric's ratio of each block in run order, for one contrast."""
    marked: dict[str, list[int]] = {}
    for case, block in sorted(marked_blocks(report.marks)):
        marked.setdefault(case, []).append(block)
    return figures.blocks_in_order(
        report.estimates,
        contrast,
        metric=report.phase.primary_metric,
        cases=report.cases,
        arms=report.arms,
        marked=marked,
        orders=_orders(report),
    )


def blocks_all(report: PhaseReport) -> Markup:
    """`blocks` for every contrast, one below the other."""
    return Markup(
        "".join(f"<p>{escaped(contrast)}</p>{blocks(report, contrast)._repr_html_()}" for contrast in report.contrasts)
    )


def _orders(report: PhaseReport) -> dict[str, dict[int, list[str]]]:
    orders: dict[str, dict[int, list[str]]] = {}
    for labels in report.ledger.labels():
        if labels.phase == report.identifier:
            orders.setdefault(labels.case, {}).setdefault(labels.block, []).append(labels.arm)
    return orders


def order_map(report: PhaseReport) -> Picture:
    """Which arm ran at which position of which block."""
    rows = [
        (labels.case, labels.block, labels.position, labels.arm)
        for labels in report.ledger.labels()
        if labels.phase == report.identifier
    ]
    return figures.order_map(rows, report.arms)


def claims(report: PhaseReport) -> Markup:
    """Every preregistered claim with its status and the numbers that decide it."""
    return tables.claims(report.claims, "Preregistered claims, in the order of the plan")


def also_seen(report: PhaseReport) -> Markup:
    """Computed sentences that nobody preregistered."""
    return bullets([sentence.text for sentence in report.sentences])


def open_questions(report: PhaseReport) -> Markup:
    """What the plan says that this data cannot explain."""
    return bullets(report.phase.open_questions, "The plan names no open question.")


def limits(report: PhaseReport) -> Markup:
    """Computed limits first, then those that the plan wrote down before the first run."""
    written = report.phase.limits
    after = (
        Markup(paragraphs(["Written into the plan before the first run:"]) + bullets(written)) if written else Markup()
    )
    return Markup(bullets(computed_limits(report)) + after)


def arms(report: PhaseReport) -> Markup:
    """Arms: tree, what it is, key package versions, digests."""
    rows = []
    for arm in report.phase.arms:
        tree, identity = report.plan.trees[arm.tree], report.seal.content["trees"][arm.tree]
        rows.append(
            (
                arm.name,
                tree.what,
                identity["interpreter"]["version"],
                _packages(list(identity["wheels"])),
                tables.code(identity["files_sha256"][:16]),
            )
        )
    harness = {name: digest for name, digest in report.seal.content["files"].items() if name.startswith("harness/")}
    shared = tables.key_values(
        [(name, tables.code(digest)) for name, digest in harness.items()], "Harness: the same bytes for every arm"
    )
    return Markup(
        tables.plain(("arm", "tree", "Python", "packages", "installed files, SHA-256"), rows, "Arms") + shared
    )


def _packages(wheels: list[str]) -> Markup:
    """Names and versions from the wheels' file names, folded away behind their count."""
    names = [" ".join(wheel.split("-")[:2]) for wheel in wheels]
    return Markup(f"<details><summary>{len(names)} packages</summary>{escaped(', '.join(names))}</details>")


def environment(report: PhaseReport) -> Markup:
    """Host, CPU groups, network, engine with every setting of the plan."""
    host = report.store.read_json(report.store.host_path)
    groups = report.plan.host.cpus
    identity, details = host["identity"], host["details"]
    rows: list[tuple[str, object]] = [
        ("CPU", f"{identity['cpu_model']}, CPUs {identity['cpus']}, siblings {', '.join(identity['siblings'])}"),
        ("memory", f"{identity['memory_kb'] / 1024 / 1024:.1f} GiB" if identity["memory_kb"] else None),
        (
            "system",
            f"{details['os']}, kernel {identity['kernel']}, {'virtual machine' if details['hypervisor'] else 'no hypervisor seen'}",
        ),
        ("frequency governor", details["governor"]),
        (
            "CPU groups",
            f"housekeeping and runner {groups.housekeeping}, server {groups.server}, benchmark process {groups.client}",
        ),
        ("network", _network(report)),
        ("engine", report.seal.content["engine"].get("version")),
        ("engine package", report.seal.content["engine"].get("package")),
        ("settings", [f"{key} = {value}" for key, value in report.plan.engine.settings.items()]),
    ]
    return tables.key_values(rows)


def _network(report: PhaseReport) -> str:
    kind = report.plan.network.kind
    return {
        "veth": "two network namespaces joined by a veth pair, no added delay",
        "loopback": "loopback interface",
        "none": "none",
    }[kind]


def design(report: PhaseReport) -> Markup:
    """The design in numbers, and the cases with their parameters."""
    phase = report.phase
    rows: list[tuple[str, object]] = [
        (
            "runs",
            f"{len(phase.arms)} arms x {len(phase.cases)} cases x {phase.blocks} blocks = "
            f"{len(phase.arms) * len(phase.cases) * phase.blocks}; one fresh process each",
        ),
        ("repeats", f"{phase.repeats} in each process"),
        ("order seed", phase.order_seed),
        ("payload seed", report.plan.campaign.payload_seed),
        ("primary interval", f"{report.primary}, level {report.plan.statistics.level:g}"),
        ("command", tables.code(" ".join(phase.argv))),
    ]
    cases = [
        (case.name, case.what, ", ".join(f"{key} = {json.dumps(value)}" for key, value in case.parameters.items()))
        for case in phase.cases
    ]
    return Markup(tables.key_values(rows, "Design") + tables.plain(("case", "what", "parameters"), cases, "Cases"))


def times(report: PhaseReport) -> Picture:
    """Where the wall time of the phase went."""
    return figures.where_time_goes(report.times.parts())


def reproduce(report: PhaseReport) -> Markup:
    """The commands, seeds and digests that this page was made with."""
    folder = f"data/{report.store.folder.name}"
    notebook = f"notebooks/phase_{report.identifier.lower()}.ipynb"
    counts = sorted({len(estimate.blocks) for estimate in report.estimates})
    rows: list[tuple[str, object]] = [
        ("this page again", tables.code("jupyter-book build book/")),
        ("with another seed", tables.code(f"papermill {notebook} out.ipynb -p campaign {folder} -p seed 12345")),
        ("check the folder", tables.code(f"python -m runner verify {folder}")),
        (
            "estimates as data",
            tables.code(f"python -m analysis estimates {folder} --phase {report.identifier} --format json"),
        ),
        ("seed", report.seed),
        ("resamples", report.resamples),
        (
            "resample indices, SHA-256",
            [tables.code(f"B = {n}: {index_digest(report.seed, report.resamples, n)}") for n in counts if n],
        ),
        ("computed with", ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "scipy"))),
        ("seal, SHA-256", tables.code(report.seal.digest)),
        ("sealed", report.seal.content["sealed"]),
    ]
    return tables.key_values(rows)
