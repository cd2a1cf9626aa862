"""What a phase page shows as evidence: arms, host, network, engine, fixture, design."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from analysis import covariates, figures, page_trees, tables
from analysis.arms import arm_places
from analysis.drawing import Picture, elided
from analysis.page_parts import Section, section
from analysis.report import PhaseReport
from analysis.tables import Markup
from runner.plan import Engine, Plan
from runner.seal import Seal
from runner.store import Store

Rows = list[tuple[str, object]]

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_DIGEST = re.compile(r"[0-9a-f]{64}")
NETWORKS = {
    "veth": "two network namespaces joined by a veth pair",
    "loopback": "loopback interface",
    "none": "none",
}


def arms(report: PhaseReport) -> Section:
    """Arms: tree, switches, key package versions, digests; the harness that all of them share."""
    rows = [
        (arm.tree, (arm.name, f"{arm.tree}: {report.plan.trees[arm.tree].what}", values(arm.switches) or "none"))
        for arm in report.phase.arms
    ]
    used = list(dict.fromkeys(arm.tree for arm in report.phase.arms))
    harness = {name: digest for name, digest in report.seal.content["files"].items() if name.startswith("harness/")}
    return section(
        *page_trees.tree_tables(("arm", "tree", "switches"), rows, report.seal, "Arms"),
        page_trees.origins(report.plan, used),
        tables.key_values(
            [
                *((name, tables.code(digest)) for name, digest in harness.items()),
                *page_trees.overlays(report.seal, used),
            ],
            "Harness: the same bytes for every arm",
        ),
    )


SHOWN = 3  # different values that a cell names; of more it says how many
LONGEST = 80  # characters of a value


def recorded(report: PhaseReport) -> Markup:
    """What runs recorded beside their metrics: each covariate's values, by arm where arms differ."""
    rows = []
    for covariate in report.phase.covariates:
        by_arm = covariates.recorded(report.phase, report.runs)[covariate.name]
        same = len(by_arm) == len(report.arms) and len({frozenset(found) for found in by_arm.values()}) == 1
        told = (
            [value_words(next(iter(by_arm.values())))]
            if same
            else [f"{arm}: {value_words(by_arm[arm])}" for arm in report.arms if arm in by_arm]
        )
        rows.append((covariate.name, covariate.what, covariate.expected, told or "not recorded"))
    if not rows:
        return Markup()
    return tables.plain(("covariate", "what", "planned as", "values"), rows, "What the runs recorded")


def value_words(found: tuple[str, ...]) -> str:
    """Different values in one line; of more than `SHOWN` how many there are."""
    if len(found) > SHOWN:
        numbers = sorted((float(text), text) for text in found if _NUMBER.fullmatch(text))
        between = f", {numbers[0][1]} to {numbers[-1][1]}" if len(numbers) == len(found) else ""
        return f"{len(found)} different values{between}"
    return ", ".join(f"{text[:12]}…" if _DIGEST.fullmatch(text) else elided(text, LONGEST) for text in found)


def values(parameters: Mapping[str, Any]) -> str:
    """Parameters or switches in one line."""
    return ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in parameters.items())


# ---- environment --------------------------------------------------------------------------------------


def environment(report: PhaseReport) -> Section:
    """Host, CPU groups, network and engine as this phase has them; its fixture."""
    plan, phase = report.plan, report.identifier
    events = list(report.store.journal().events)
    rows = [
        *host_rows(report.store, plan),
        ("network", _network(report, events)),
        *engine_rows(plan, report.seal, phase),
    ]
    return section(tables.key_values(rows, "Environment"), *_fixture(report, events))


UNKNOWN_HOST: dict[str, dict[str, Any]] = {
    "identity": {
        "cpu_model": "unknown",
        "cpus": "unknown",
        "siblings": ["unknown"],
        "memory_kb": None,
        "kernel": "unknown",
    },
    "details": {"os": "unknown", "hypervisor": False, "governor": "unknown"},
}


HELD = {
    "control group": "control group: nothing outlives the runner",
    "process group": "process group: what leaves it can outlive a runner that is killed",
}


def host_rows(store: Store, plan: Plan) -> Rows:
    """The host, and who has which of its CPUs; of adopted runs it may be unknown."""
    groups = plan.host.cpus
    if store.brought and not store.host_path.is_file():
        named = f"housekeeping {groups.housekeeping}, server {groups.server}, benchmark process {groups.client}"
        return [("host", "unknown: the runs were not executed here"), ("CPU groups, as planned", named)]
    host = store.read_json(store.host_path)
    identity, details = host["identity"], host["details"]
    if store.brought:  # a record that came along may hold less
        identity, details = UNKNOWN_HOST["identity"] | identity, UNKNOWN_HOST["details"] | details
    served = "" if plan.engine.kind == "none" else f"server {groups.server}, "
    virtual = "virtual machine" if details["hypervisor"] else "no hypervisor seen"
    return [
        ("CPU", f"{identity['cpu_model']}, CPUs {identity['cpus']}, siblings {', '.join(identity['siblings'])}"),
        ("memory", f"{identity['memory_kb'] / 1024 / 1024:.1f} GiB" if identity["memory_kb"] else None),
        ("system", f"{details['os']}, kernel {identity['kernel']}, {virtual}"),
        ("frequency governor", details["governor"]),
        *(
            [("processes are ended by", HELD.get(details["containment"], "unknown"))]
            if "containment" in details
            else []
        ),
        (
            "CPU groups",
            f"housekeeping and runner {groups.housekeeping}, {served}benchmark process {groups.client}",
        ),
    ]


def delay_words(plan: Plan, phase: str) -> str:
    """What the plan adds to the path between client and server in a phase."""
    added = plan.network_of(phase).delay_us
    return f"{added} us added each way" if added else "no added delay"


def _network(report: PhaseReport, events: Iterable[Mapping[str, Any]]) -> str:
    planned = report.plan.network_of(report.identifier)
    text = NETWORKS[planned.kind]
    if planned.kind == "none":
        return text
    text += f", {delay_words(report.plan, report.identifier)}"
    methods = [
        str(event["delay"]["method"])
        for event in events
        if event["event"] == "engine-start" and event.get("phase") == report.identifier and "delay" in event
    ]
    made = f", made by {' and '.join(dict.fromkeys(methods))}" if methods else ""
    elsewhere = (
        "" if planned.delay_us == report.plan.network.delay_us else " (this phase alone; the plan's network has "
    )
    if elsewhere:
        elsewhere += f"{report.plan.network.delay_us or 'none'})"
    return text + made + elsewhere


def engine_rows(plan: Plan, seal: Seal, phase: str | None = None) -> Rows:
    """The engine with every setting of the plan; what a phase has another way is marked."""
    if plan.engine.kind == "none":
        return [("engine", "none")]
    common = plan.engine
    engine = plan.engine_of(phase) if phase else common
    storage = engine.storage + _differs(engine.storage, common.storage)
    settings = [f"{key} = {value}{_differs(value, common.settings.get(key))}" for key, value in engine.settings.items()]
    return [
        ("engine", seal.content["engine"].get("version")),
        ("engine package", seal.content["engine"].get("package")),
        ("data folder", storage),
        *([("storage engine", _storage_engine(engine, common))] if engine.storage_engine else []),
        ("authentication", engine.authentication or "none"),
        ("settings", settings),
    ]


def _storage_engine(engine: Engine, common: Engine) -> str:
    return engine.storage_engine + _differs(engine.storage_engine, common.storage_engine) + ", single redundancy"


def _differs(value: str, common: str | None) -> str:
    if value == common:
        return ""
    return f" (this phase alone; the plan's engine has {'the default' if common is None else common})"


def _fixture(report: PhaseReport, events: Iterable[Mapping[str, Any]]) -> list[Markup]:
    """The database that every process of the phase gets a copy of."""
    name = report.phase.fixture
    if name is None:
        return []
    fixture = report.plan.fixtures[name]
    made = [event for event in events if event["event"] == "fixture" and event["phase"] == report.identifier]
    said = made[-1]["configuration"] if made else {}
    rows: Rows = [
        ("what", fixture.what),
        ("tree that made it", fixture.tree),
        ("parameters", [values({key: value}) for key, value in fixture.parameters.items()]),
        ("what it reported", [f"{key}: {value}" for key, value in said.items()]),
        ("made", f"{len(made)} time{'s' * (len(made) != 1)}, once for each start of the engine"),
        ("command", tables.code(" ".join(fixture.argv))),
    ]
    return [tables.key_values(rows, f"Fixture {name}: copied for every process, untimed")]


# ---- design -------------------------------------------------------------------------------------------


def design(report: PhaseReport) -> Section:
    """The design in numbers, and the cases with their parameters; what all cases share stands once."""
    phase = report.phase
    runs = f"{len(phase.arms)} arms x {len(phase.cases)} cases x {phase.blocks} blocks"
    own = own_parameters(report.plan, report.identifier)
    shared = _shared(list(own.values()))
    rows: Rows = [
        ("runs", f"{runs} = {len(phase.arms) * len(phase.cases) * phase.blocks}; one fresh process each"),
        ("repeats", f"{phase.repeats} in each process"),
        ("order seed", phase.order_seed),
        ("payload seed", report.plan.campaign.payload_seed),
        ("primary interval", f"{report.primary}, level {report.statistics.level:g}"),
        ("command", tables.code(" ".join(phase.argv))),
    ]
    rows += [(f"command of {case.name}", tables.code(" ".join(case.argv))) for case in phase.cases if case.argv]
    if phase.environment:
        rows.append(("environment", [tables.code(f"{key}={value}") for key, value in phase.environment.items()]))
    if phase.outputs:
        rows.append(("files beside the output", ", ".join(phase.outputs)))
    rows += [
        (f"files of {case.name}", ", ".join(case.outputs) or "none") for case in phase.cases if case.outputs is not None
    ]
    if shared:
        rows.append(("parameters of every case", values(shared)))
    cases = [
        (case.name, case.what, values({k: v for k, v in own[case.name].items() if k not in shared}))
        for case in phase.cases
    ]
    return section(tables.key_values(rows, "Design"), tables.plain(("case", "what", "parameters"), cases, "Cases"))


def own_parameters(plan: Plan, phase: str) -> dict[str, dict[str, Any]]:
    """Each case's parameters, without the payload seed and what its fixture says already."""
    name = plan.phases[phase].fixture
    known = {"payload_seed": plan.campaign.payload_seed, **(plan.fixtures[name].parameters if name else {})}
    return {
        case.name: {
            key: value
            for key, value in plan.parameters_of(phase, case.name).items()
            if key not in known or known[key] != value
        }
        for case in plan.phases[phase].cases
    }


def _shared(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """What all of several cases have, with the same value."""
    first, *others = cases
    return (
        {k: v for k, v in first.items() if all(other.get(k) == v and k in other for other in others)} if others else {}
    )


def order_map(report: PhaseReport) -> Picture:
    """Which arm ran at which position of which block."""
    rows = [
        (labels.case, labels.block, labels.position, labels.arm)
        for labels in report.ledger.labels()
        if labels.phase == report.identifier
    ]
    return figures.order_map(rows, arm_places(report.plan, report.identifier))


def times(report: PhaseReport) -> Picture:
    """Where the wall time of the phase went."""
    return figures.where_time_goes(report.times.parts())
