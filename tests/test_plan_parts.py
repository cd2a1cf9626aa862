"""What one phase has that another has not: engine, network, fixture, files, metrics of some cases alone."""

from __future__ import annotations

import pytest

from runner.plan import Plan, named_cases
from runner.planfile import parse
from runner.templates import fill, unknown_fields
from tests.small import TEXT, changed
from tests.test_plan import problems

FIXTURE = """
[fixtures.rows]
what = "ten rows"
tree = "new"
argv = ["{python}", "{harness}/one.py", "--parameters", "{parameters}"]
parameters = { rows = 10 }

"""
PHASE_A = 'primary_metric = "ns/op"\n'


def with_a(*lines: str, fixture: str = FIXTURE) -> str:
    """The small plan with a fixture, and with more keys in phase A."""
    return changed(PHASE_A, PHASE_A + "\n".join(lines) + "\n").replace("[phases.A]", fixture + "[phases.A]", 1)


def test_a_phase_changes_only_what_it_says() -> None:
    plan = parse(
        with_a(
            'fixture = "rows"',
            'engine = { storage = "disk", settings = { fsync = "on", jit = "off" } }',
            "network = { delay_us = 250 }",
        )
    )
    of_a, of_b = plan.engine_of("A"), plan.engine_of("B")
    assert of_b == plan.engine
    assert (of_a.kind, of_a.version, of_a.storage) == (plan.engine.kind, plan.engine.version, "disk")
    assert dict(of_a.settings) == {**plan.engine.settings, "fsync": "on", "jit": "off"}
    assert (plan.network_of("A").delay_us, plan.network_of("B").delay_us) == (250, 0)
    assert plan.network_of("A").kind == plan.network.kind
    seed = plan.campaign.payload_seed
    assert plan.parameters_of("A", "Get") == {"payload_seed": seed, "rows": 10}
    assert plan.parameters_of("B", "Scan/serial") == {"payload_seed": seed, "rows": 100, "sizes": (1, 2)}


def test_metrics_of_some_cases() -> None:
    plan: Plan = parse(changed('scope = "bytes allocated"', 'scope = "bytes"\ncases = { all_but = ["Save"] }'))
    phase = plan.phases["B"]
    assert phase.cases_of("B/op") == ("Scan/serial", "Scan/pipelined")
    assert phase.cases_of("ns/op") == ("Save", "Scan/serial", "Scan/pipelined")
    assert [metric.unit for metric in phase.metrics_of("Save")] == ["ns/op"]
    assert named_cases(("b", "a"), ["a", "b", "c"]) == ("a", "b")


def test_what_a_case_has_of_its_own() -> None:
    own = 'expected_s = 4\nargv = ["{python}", "{harness}/three.py"]\noutputs = []\n'
    text = with_a('outputs = ["log.txt"]', 'environment = { FOLDER = "{output}" }', fixture="")
    phase = parse(text.replace("expected_s = 4\n", own, 1)).phases["A"]
    assert (phase.argv_of("Get"), phase.outputs_of("Get")) == (("{python}", "{harness}/three.py"), ())
    assert (phase.argv_of("Set"), phase.outputs_of("Set")) == (phase.argv, ("log.txt",))


def test_a_null_contrast_is_one_arm_under_two_names() -> None:
    phase = parse(TEXT).phases["B"]
    assert [phase.is_null(contrast) for contrast in phase.contrasts] == [False, False]
    phase = parse(changed("switches = { fetch = false, depth = 3 }", "switches = { fetch = true }")).phases["B"]
    assert phase.is_null(next(c for c in phase.contrasts if {c.numerator, c.denominator} == {"on", "off"}))


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (with_a('fixture = "row"'), "phases.A.fixture", "unknown fixture 'row'; expected one of rows"),
        (with_a('fixture = "rows"', fixture=""), "phases.A.fixture", "expected one of none is planned"),
        (with_a(fixture=FIXTURE.replace('"new"', '"newer"')), "fixtures.rows.tree", "unknown tree 'newer'"),
        (with_a(fixture=FIXTURE.replace("{parameters}", "{case}")), "fixtures.rows.argv.3", "unknown field {case}"),
        (with_a('engine = { version = "17" }'), "phases.A.engine.version", "unknown key"),
        (with_a("network = {}"), "phases.A.network.delay_us", "this key is required"),
        (with_a('outputs = ["run.json"]'), "phases.A.outputs.0", "is a file of the runner's own"),
        (with_a('outputs = ["a.log", "STDOUT.txt"]'), "phases.A.outputs.1", "is a file of the runner's own"),
        (with_a('outputs = ["a.log", "A.log"]'), "phases.A.outputs.1", "differs from 'a.log' only in case"),
        (with_a('outputs = ["a.log"]'), "phases.A.outputs", "does not say where: expected {output} in it"),
        (
            with_a().replace("expected_s = 4\n", 'expected_s = 4\noutputs = ["a.log", "a.log"]\n', 1),
            "phases.A.cases.0.outputs.1",
            "is there twice",
        ),
        (with_a(), "fixtures.rows", "no phase has this fixture"),
        (with_a('outputs = ["a/b"]'), "phases.A.outputs.0", "should match pattern"),
        (
            with_a('fixture = "rows"').replace("expected_s = 4\n", "expected_s = 4\nparameters = { rows = 3 }\n", 1),
            "phases.A.cases.0.parameters.rows",
            "is a parameter of fixture 'rows' already",
        ),
        (changed("{harness}/one.py", "{harnes}/one.py"), "phases.A.argv.1", "unknown field {harnes}; expected one of arm, "),
        (changed("{block}", "{blok}"), "phases.B.environment.PYTHONHASHSEED", "unknown field {blok}"),
        (changed('scope = "wall time"', 'scope = "wall time"\ncases = ["Get"]'), "phases.A.primary_metric", "every case"),
        (
            changed('scope = "bytes allocated"', 'scope = "bytes"\ncases = ["Load"]'),
            "phases.B.metrics.1.cases.0",
            "unknown case 'Load'",
        ),
        (
            changed('scope = "wall time"', 'scope = "wall time"\ncases = { all_but = ["Get", "Set"] }'),
            "phases.A.metrics.0.cases.all_but",
            "every case is left out: the metric is measured by none",
        ),
    ],
)  # fmt: skip
def test_bad_parts(text: str, path: str, message: str) -> None:
    found = {where: told for _, where, told in problems(text)}
    assert message in found[path]


def test_a_claim_about_a_case_that_does_not_measure_the_metric() -> None:
    text = changed('scope = "bytes allocated"', 'scope = "bytes"\ncases = ["Save"]')
    text = text.replace("[[phases.B.claims]]", """[[phases.B.claims]]
id = "B9"
text = "x"
metric = "B/op"
contrast = "on/off"
cases = ["Scan/serial"]
holds = "below-1"

[[phases.B.claims]]""", 1)  # fmt: skip
    found = {path: message for _, path, message in problems(text)}
    assert found["phases.B.claims.0.cases.0"] == "unknown case 'Scan/serial'; expected one of Save"


def test_without_an_engine_there_is_nothing_to_change() -> None:
    text = TEXT[: TEXT.index("[engine]")] + '[engine]\nkind = "none"\n\n' + TEXT[TEXT.index("[harness]") :]
    text = text.replace('kind = "veth"', 'kind = "none"').replace("delay_us = 0", "")
    parts = (PHASE_A + 'engine = { storage = "disk" }\nnetwork = { delay_us = 5 }\n').join(text.split(PHASE_A, 1))
    assert [path for _, path, _ in problems(parts)] == ["phases.A.engine", "phases.A.network.delay_us"]


def test_fields_are_filled_once() -> None:
    assert fill("{a}{b} {", {"a": "{b}", "b": "x"}) == "{b}x {"
    assert unknown_fields("{a} {b} {c", frozenset("a")) == ["b"]
