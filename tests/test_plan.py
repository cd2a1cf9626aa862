"""Bad plans: every rule has a plan that breaks it, and the message names file, line and key path."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import PlanError
from runner.plan import Plan
from runner.planfile import load, parse
from runner.toml_lines import line_of
from tests.small import TEXT, changed, plan

A1 = 'id = "A1"'
CASE_0 = "# the first case"


def test_the_small_plan_is_good() -> None:
    found = plan()
    assert isinstance(found, Plan)
    assert list(found.phases) == ["A", "B"]
    assert [case.name for case in found.phases["B"].cases] == ["Save", "Scan/serial", "Scan/pipelined"]
    assert found.phases["B"].cases[1].parameters == {"rows": 100, "sizes": (1, 2)}
    assert found.phases["B"].contrasts[0].name == "on/off"


def problems(text: str) -> list[tuple[int, str, str]]:
    """(line, key path, message) of everything that is wrong with a plan."""
    with pytest.raises(PlanError) as raised:
        parse(text, "some/plan.toml")
    first, *lines = str(raised.value).splitlines()
    assert re.fullmatch(r"some/plan\.toml: \d+ problems? in the plan", first)
    assert len(lines) == int(first.split()[1])
    found = []
    for line in lines:
        match = re.fullmatch(r"  some/plan\.toml:(\d+): (\S+): (.*)", line)
        assert match is not None, line
        found.append((int(match[1]), match[2], match[3]))
    return found


def line_with(text: str, part: str, after: str = "") -> int:
    """Line of the first place of `part` behind `after`."""
    return text.count("\n", 0, text.index(part, text.index(after))) + 1


BAD: list[tuple[str, str, str, str, str, str]] = [
    # what is changed, into what, behind what; a text of the line that is named, if it is not the changed one; key
    # path; message
    ("level = 0.95", "levle = 0.95", "", "levle", "statistics.levle", "unknown key"),
    ("level = 0.95", "", "", "[statistics]", "statistics.level", "this key is required"),
    ('[campaign]\nid = "small"', '[campaing]\nid = "small"', "", "[campaing]", "campaing", "unknown key"),
    ("level = 0.95", 'level = "high"', "", "level =", "statistics.level", "valid number, found 'high'"),
    ("level = 0.95", "level = true", "", "level =", "statistics.level", "valid number, found True"),
    ("level = 0.95", "level = nan", "", "level =", "statistics.level", "found nan"),
    ("level = 0.95", "level = 95", "", "level =", "statistics.level", "less than 1, found 95"),
    ("resamples = 20000", "resamples = 10", "", "resamples", "statistics.resamples", "or equal to 100, found 10"),
    ("resamples = 20000", "resamples = 2e4", "", "resamples", "statistics.resamples", "valid integer"),
    ("resamples = 20000", "resamples = 100000000", "", "resamples", "statistics.resamples", "or equal to 10000000"),
    ("payload_seed = 7", "payload_seed = -7", "", "payload_seed", "campaign.payload_seed", "or equal to 0"),
    ("payload_seed = 7", "payload_seed = 2026-11-30", "", "payload_seed", "campaign.payload_seed", "found the date"),
    ("payload_seed = 7", "payload_seed = 9223372036854775808", "", "payload_seed", "campaign.payload_seed", "less"),
    ('primary = "t"', 'primary = "bca"', "", "primary =", "statistics.primary", "'t' or 'percentile', found 'bca'"),
    ('id = "small"', 'id = "../small"', "", "id =", "campaign.id", "found '../small'"),
    ('id = "small"', 'id = ".small"', "", "id =", "campaign.id", "found '.small'"),
    ('client = "1"', 'client = "9-1"', "", "cpus =", "host.cpus.client", "'9-1' is no range of CPU numbers"),
    ('client = "1"', 'client = "0-9999"', "", "cpus =", "host.cpus.client", "no range"),
    ('client = "1"', 'client = "1-2-3"', "", "cpus =", "host.cpus.client", "found '1-2-3'"),
    ('client = "1"', 'client = "\u0663"', "", "cpus =", "host.cpus.client", "pattern"),
    (', client = "1"', "", "", "cpus =", "host.cpus.client", "this key is required"),
    ('kind = "veth"', 'kind = "wifi"', "", "kind = ", "network.kind", "'veth', 'loopback' or 'none', found 'wifi'"),
    ('kind = "postgres"', 'kind = "none"', "", '"veth"', "network.kind", "without an engine there is no network"),
    ('storage = "memory"\n', "", "", "[engine]", "engine", "engine postgres needs version, storage and authentication"),
    ('fsync = "off"', "fsync = false", "", "fsync", "engine.settings.fsync", "valid string, found False"),
    ('"two.py",\n', '"../two.py",\n', "", '"../two.py"', "harness.files.1", "found '../two.py'"),
    ('"two.py",\n', '"a/../../two.py",\n', "", "two.py", "harness.files.1", "'a/../../two.py' leaves its folder"),
    ('"two.py",\n', '"a//two.py",\n', "", "two.py", "harness.files.1", "'a//two.py' leaves its folder"),
    ('"two.py",\n', '"/etc/passwd",\n', "", "passwd", "harness.files.1", "found '/etc/passwd'"),
    ('"two.py",\n', '"One.py",\n', "", "One.py", "harness.files.1", "'One.py' differs from 'one.py' only in case"),
    ('source = "workloads"', 'source = "w/.."', "", "source", "harness.source", "'w/..' leaves its folder"),
    ('lock = "trees/old.txt"', 'lock = "t/../../x"', "", "", "trees.old.lock", "leaves its folder"),
    ('lock = "trees/old.txt"', 'lock = "runs/x"', "", "", "trees.old.lock", "'runs/x' is a place of the runner's"),
    ('lock = "trees/old.txt"', 'lock = "seal.json"', "", "", "trees.old.lock", "is a place of the runner's own"),
    ('python = "3.11"', 'python = "2.7"', "", "python =", "trees.old.python", "found '2.7'"),
    ("[trees.new]", "[trees.OLD]", "", "[trees.OLD]", "trees.OLD", "'OLD' differs from 'old' only in case"),
    ("run_limit_s = 60", "run_limit_s = 0", "", "run_limit_s", "rules.run_limit_s", "greater than 0"),
    ("run_limit_s = 60", "run_limit_s = 1e9", "", "run_limit_s", "rules.run_limit_s", "or equal to 604800"),
    ("run_limit_s = 60", "run_limit_s = inf", "", "run_limit_s", "rules.run_limit_s", "or equal to 604800"),
    ("run_limit_s = 60", "run_limit_s = 4.5", "", "expected_s = 5", "phases.A.cases.1.expected_s", "4.5, found 5"),
    ("replacement_blocks = 2", "replacement_blocks = 1000", "", "replac", "rules.replacement_blocks", "equal to 100"),
    ("idle_load = 0.25", "idle_load = 25", "", "idle_load", "rules.checks.idle_load", "equal to 1, found 25"),
    ('"host-down"]', '"out-of-memory"]', "", "interruptions", "rules.interruptions.1", "found 'out-of-memory'"),
    ("[phases.B.holm]", "[phases.b.holm]", "", "[phases.b.holm]", "phases.b.title", "this key is required"),
    # arms, contrasts, metrics, the Holm family
    ('tree = "new"', 'tree = "newer"', "[[phases.B", 'tree = "newer"', "phases.B.arms.0.tree", "unknown tree 'newer'"),
    ('tree = "new"\n', "", "[phases.A]", "[[phases.A.arms]]\nname = \"new\"", "phases.A.arms.1.tree", "is required"),
    ('name = "off"', 'name = "on"', "", "", "phases.B.arms.2.name", "'on' is there twice"),
    ('name = "off"', 'name = "ON"', "", "", "phases.B.arms.2.name", "'ON' differs from 'on' only in case"),
    ('name = "new"', 'name = "x.partial"', "", "", "phases.A.arms.1.name", "ends like the folder of a run under way"),
    ("depth = 3", "depth = 3000000000000", "", "depth", "phases.B.arms.2.switches.depth", "equal to 1000000000000"),
    ("depth = 3", "depth = { a = 3 }", "", "depth", "phases.B.arms.2.switches.depth", "valid boolean; or "),
    ("depth = 3", "depth = [3]", "", "depth", "phases.B.arms.2.switches.depth.0", "valid string, found 3"),
    ('numerator = "on"', 'numerator = "up"', "", "", "phases.B.contrasts.0.numerator", "unknown arm 'up'; expected one"),
    ('denominator = "base"', 'denominator = "down"', "", "", "phases.B.contrasts.1.denominator", "unknown arm 'down'"),
    ('denominator = "off"', 'denominator = "on"', "", '[[phases.B.contrasts]]', "phases.B.contrasts.0", "against itself"),
    ('better = "lower"', 'better = "less"', CASE_0[:0], 'better = "less"', "phases.A.metrics.0.better", "found 'less'"),
    ('unit = "B/op"', 'unit = "ns/op"', "", "", "phases.B.metrics.1.unit", "'ns/op' is there twice"),
    ('primary_metric = "ns/op"', 'primary_metric = "B/op"', "", "", "phases.A.primary_metric", "unknown metric 'B/op'"),
    ('"off/base",\n', '"off/on",\n', "", "", "phases.B.holm.contrasts.1", "unknown contrast 'off/on'"),
    ('"off/base"', '"on/off"', "", "", "phases.B.holm.contrasts.1", "is there twice"),
    ("blocks = 6", "blocks = 0", "", "blocks = 0", "phases.A.blocks", "equal to 2, found 0"),
    ("blocks = 6", "blocks = 1000000", "[phases.B]", "blocks = 1000000", "phases.B.blocks", "equal to 1000"),
    ("repeats = 2", "repeats = -1", "", "", "phases.B.repeats", "equal to 1"),
    ('PYTHONHASHSEED = "{block}"', 'pythonhashseed = "1"', "", "", "phases.B.environment.pythonhashseed", "pattern"),
    # cases
    ('name = "Set"', 'name = "Get"', "", 'name = "Get"\nwhat = "one key"\nexpected_s = 5', "phases.A.cases.1.name", "there twice"),
    ('name = "Set"', 'name = "gET"', "", "", "phases.A.cases.1.name", "'gET' differs from 'Get' only in case"),
    ('name = "Scan/pipelined"', 'name = "Scan%2fserial"', "", "", "phases.B.cases.2.name", "how a character is written"),
    ('name = "Set"', 'name = "Get-8"', "", "", "phases.A.cases.1.name", "'Get' with a GOMAXPROCS suffix"),
    ('name = "Set"', 'name = "' + "\u00e9" * 60 + '"', "", "name = \"\u00e9", "phases.A.cases.1.name", "too long for"),
    ('name = "Set"', 'name = "two words"', "", "", "phases.A.cases.1.name", "pattern"),
    ('name = "Set"', 'name = ""', "", 'name = ""', "phases.A.cases.1.name", "pattern"),
    ("expected_s = 4\nparameters", 'expected_s = "4"\nparameters', "", 'expected_s = "4"', "phases.B.cases.0.expected_s", "number"),
    ("sizes = [1, 2]", 'sizes = [1, "2"]', "", "sizes = [1", "phases.B.cases.0.parameters.sizes.1", "integer, found '2'"),
    ("  2,\n]\n", "  2.5,\n]\n", "[phases.B.cases.parameters]", "  2.5,", "phases.B.cases.1.parameters.sizes.1", "integer"),
    ("rows = 100", "rows = 1e300", CASE_0, "rows = 1e300", "phases.B.cases.0.parameters.rows", "equal to 1000000000000"),
    ("what = '''", "how = '''", "", "how =", "phases.B.cases.2.how", "unknown key"),
    # claims
    ("within = [0.95, 1.05]", "within = [1.05, 0.95]", "", "", "phases.B.claims.2.holds.within", "must be 0 < low < high"),
    ("within = [0.95, 1.05]", "within = [1.05, 1.05]", "", "", "phases.B.claims.2.holds.within", "must be 0 < low < high"),
    ("within = [0.95, 1.05]", "within = [0, 1.05]", "", "", "phases.B.claims.2.holds.within.0", "greater than 0"),
    ("within = [0.95, 1.05]", "within = [0.9, inf]", "", "", "phases.B.claims.2.holds.within.1", "finite number"),
    ("within = [0.95, 1.05]", "within = [0.9]", "", "within = [0.9]", "phases.B.claims.2.holds.within.1", "required"),
    ("within = [0.95, 1.05]", "without = [0.9, 1]", "", "without", "phases.B.claims.2.holds.without", "unknown key"),
    ("point_within = [0.99", "point_within = [1.99", "", "point", "phases.B.claims.3.holds.point_within", "0 < low < high"),
    ('holds = "below-1"', 'holds = "below"', A1, 'holds = "below"', "phases.A.claims.0.holds", "found 'below'"),
    ('holds = "below-1"', "holds = 1", A1, "holds = 1", "phases.A.claims.0.holds", "'smallest', found 1"),
    ('["Scan/pipelined"]', '["Save", "Scan/serial"]', "", "", "phases.B.claims.1.cases", "cases must list exactly one"),
    ('cases = ["Scan/pipelined"]', 'cases = "all"', "", "", "phases.B.claims.1.cases", "is said of one case"),
    ('cases = ["Scan/serial"]', "cases = []", "", "cases = []", "phases.B.claims.3.cases", "at least 1 item"),
    ('cases = ["Scan/serial"]', 'cases = ["Scan"]', "", "", "phases.B.claims.3.cases.0", "unknown case 'Scan'; expected"),
    ('cases = ["Scan/serial"]', 'cases = "ALL"', "", "", "phases.B.claims.3.cases", "should be 'all', found 'ALL'"),
    ('["Scan/serial"]', '["Save", "Save"]', 'id = "B4"', '["Save", "Save"]', "phases.B.claims.3.cases.1", "there twice"),
    ('all_but = ["Save"]', 'all_but = ["Load"]', "", "", "phases.B.claims.0.cases.all_but.0", "unknown case 'Load'"),
    ('all_but = ["Save"]', 'AllBut = ["Save"]', "", "AllBut", "phases.B.claims.0.cases.all_but", "key is required"),
    ('all_but = ["Save"]', 'all_but = ["Save", "Scan/serial", "Scan/pipelined"]', "", "",
     "phases.B.claims.0.cases.all_but", "nothing"),
    ('metric = "B/op"', 'metric = "s/op"', "", "", "phases.B.claims.3.metric", "unknown metric 's/op'"),
    ('contrast = "new/old"', 'contrast = "old/new"', "", "", "phases.A.claims.0.contrast", "unknown contrast 'old/new'"),
    ('contrast = "new/old"', 'contrast = "new"', "", "", "phases.A.claims.0.contrast", "pattern"),
    ('interval = "percentile"', 'interval = "bca"', "", "", "phases.B.claims.2.interval", "found 'bca'"),
    ('id = "B2"', 'id = "B1"', "", 'id = "B1"\ntext = "The pip', "phases.B.claims.1.id", "'B1' is there twice; ids"),
    ('id = "B2"', 'id = "A1"', "", 'id = "A1"\ntext = "The pip', "phases.B.claims.1.id", "ids are campaign-wide"),
    ('id = "B2"', 'id = "a1"', "", 'id = "a1"', "phases.B.claims.1.id", "differs from 'A1' only in case"),
    # a shortened copy
    ('"Scan/serial"] }', '"Scan"] }', "[short]", "cases = { B", "short.cases.B.1", "unknown case 'Scan' of phase B"),
    ('"Scan/serial"] }', '"Save"] }', "[short]", "cases = { B", "short.cases.B.1", "'Save' is there twice"),
    ("cases = { B", "cases = { C", "[short]", "cases = { C", "short.cases.C", "unknown phase 'C'; expected one of A, B"),
    ('cases = { B = ["Save", "Scan/serial"] }', "cases = {}", "[short]", "cases = {}", "short.cases", "no phase is left"),
    ("blocks = 4", "blocks = 1", "", "blocks = 1", "short.blocks", "equal to 2, found 1"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "after", "shown", "path", "message"), BAD)
def test_bad_plans(old: str, new: str, after: str, shown: str, path: str, message: str) -> None:
    text = changed(old, new, after)
    found = problems(text)
    here = [entry for entry in found if entry[1] == path]
    assert here, found
    assert message in here[0][2]
    if shown:
        assert here[0][0] == line_with(text, shown, "[short]" if path.startswith("short") else after)
    else:
        assert here[0][0] == line_with(TEXT, old, after)


def test_one_slip_is_one_problem() -> None:
    """A wrong word is not reported once for each thing that it is not."""
    for old, new in (
        ('holds = "below-1"', 'holds = { within = [2, "x"] }'),
        ('cases = ["Get"]', 'cases = ["two words"]'),
        ("sizes = [1, 2]", 'sizes = [1, "x"]'),
    ):
        assert len(problems(changed(old, new))) == 1


def test_all_problems_are_listed_at_once() -> None:
    text = changed("level = 0.95", "levle = 0.95").replace("blocks = 6", "blocks = 0")
    assert [path for _, path, _ in problems(text)] == [
        "statistics.level",
        "statistics.levle",
        "phases.A.blocks",
        "phases.B.blocks",
    ]


@pytest.mark.parametrize(
    "name", ["str", "Case", "AllBut", "literal", "tuple", "bool", "list", "word", "function-after"]
)
def test_words_of_the_validator_are_names_like_any_other(name: str) -> None:
    text = TEXT.replace("phases.A", f"phases.{name}")
    assert f"phases.{name}.blocks" in [path for _, path, _ in problems(text.replace("blocks = 6", "blocks = 0"))]
    odd = changed("rows = 100, sizes = [1, 2]", f'{name} = 1979-05-27, "tuple[int, ...]" = [1, "x"]')
    assert f"phases.B.cases.0.parameters.{name}" in [path for _, path, _ in problems(odd)]
    odd = changed("rows = 100, sizes = [1, 2]", f'{name} = [1, "x"]')
    assert [path for _, path, _ in problems(odd)] == [f"phases.B.cases.0.parameters.{name}.1"]


def test_names_differ_only_in_case_across_phases() -> None:
    found = problems(TEXT.replace("phases.A", "phases.b"))
    assert found[-1][1:] == ("phases.B", "'B' differs from 'b' only in case, or in how a character is written")
    assert found[-1][0] == line_with(TEXT, "[phases.B]")


@pytest.mark.parametrize("version", ["2", "0", '"1"', "1.0", "true"])
def test_another_format_version(version: str) -> None:
    ((line, path, message),) = problems(changed("format = 1", f"format = {version}\nanything = 1"))
    assert (line, path) == (2, "format")
    assert message.startswith("expected format = 1, found ")


def test_no_format_version() -> None:
    assert problems(changed("format = 1", ""))[0][:2] == (1, "format")


def test_an_absurd_number_of_runs() -> None:
    text = changed("blocks = 6", "blocks = 1000")
    cases = "".join(f'\n[[phases.A.cases]]\nname = "Case{i}"\nwhat = "x"\nexpected_s = 1\n' for i in range(60))
    ((_, path, message),) = problems(text.replace("[[phases.A.claims]]", cases + "\n[[phases.A.claims]]"))
    assert path == "phases.A.blocks"
    assert message.startswith("124000 runs; expected at most 100000")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (changed("level = 0.95", "level 0.95"), 14),
        (changed("level = 0.95", "level = "), 14),
        (changed("level = 0.95", "level = 0.95\nlevel = 0.96"), 15),
        (changed("[rules.checks]", "[statistics]"), 49),
        (TEXT + "\n[open", TEXT.count("\n") + 2),
        (TEXT + '\n"""', TEXT.count("\n") + 2),
        ("\ufeff" + TEXT, 1),
    ],
)
def test_bad_toml(text: str, line: int) -> None:
    with pytest.raises(PlanError, match=rf"^some/plan\.toml:{line}: not valid TOML"):
        parse(text, "some/plan.toml")


@pytest.mark.parametrize("text", ["a = " + "[" * 5000 + "]" * 5000, "a = " + "9" * 5000, "a." * 5000 + "a = 1"])
def test_absurd_toml_is_no_traceback(text: str) -> None:
    with pytest.raises(PlanError, match=r"^plan\.toml"):
        parse(text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"there is no plan here"):
        load(tmp_path / "plan.toml")
    (tmp_path / "plan.toml").write_bytes(TEXT.encode("utf-16"))
    with pytest.raises(PlanError, match=r"plan\.toml:1: not UTF-8"):
        load(tmp_path / "plan.toml")
    (tmp_path / "plan.toml").write_bytes(TEXT.replace("what changed", "wh\u00e4t").encode("latin-1"))
    line = line_with(TEXT, "what changed")
    with pytest.raises(PlanError, match=rf"plan\.toml:{line}: not UTF-8"):
        load(tmp_path / "plan.toml")
    (tmp_path / "plan.toml").write_bytes(TEXT.replace("\n", "\r\n").encode())
    assert load(tmp_path / "plan.toml").campaign.id == "small"


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, part in inner for deeper in paths(part, (*path, key)))]


LINES = r'''a = 1 # [not.a.header]
b."c d" = """
[not.a.table]
x = ""quotes"" \""""
'e.f' = ['''.replace("'e.f'", '"e.f"') + r"""
  1, { g = '[[', h = "}" }, # ] comment
  [ "]",
    '#' ],
] # end
["i".j] # [k]
k = '''
k = 2'''
[[m]]
[[m.n]]
o = 1
[[m.n]]
o.p = { q = { r = 1, s.t = [ 1,
  2 ] } }
[m.u]
v = 1979-05-27T07:32:00Z
[[m]]
n = [ { o = 1 },
  { o = 2 } ]
""" + 'w = "\\u0041 # \\" ]"\nz = -1.5e3\n'  # fmt: skip


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("a",), 1), (("b", "c d"), 2), (("b",), 2), (("e.f",), 5), (("e.f", 0), 6), (("e.f", 1, "h"), 6),
        (("e.f", 2), 7), (("e.f", 2, 1), 8), (("i", "j"), 10), (("i",), 10), (("i", "j", "k"), 11), (("m",), 13),
        (("m", 0), 13), (("m", 0, "n"), 14), (("m", 0, "n", 0, "o"), 15), (("m", 0, "n", 1), 16),
        (("m", 0, "n", 1, "o", "p", "q", "s", "t", 1), 18), (("m", 0, "n", 1, "o", "p", "q", "s", "missing"), 17),
        (("m", 0, "u", "v"), 20), (("m", 1), 21), (("m", 1, "n", 1, "o"), 23), (("m", 1, "w"), 24),
        (("m", 1, "z", "deeper"), 25), (("missing", "key"), 1), ((), 1), (("m", 7, "x"), 13),
    ],
)  # fmt: skip
def test_lines_of_keys(path: tuple[str | int, ...], line: int) -> None:
    tomllib.loads(LINES)
    assert line_of(LINES, path) == line


@given(st.data())
def test_every_key_and_element_of_a_plan_has_its_line(data: st.DataObject) -> None:
    """Replace one value by a marker: the line that was named is the one that changed."""
    path = data.draw(st.sampled_from([path for path in paths(tomllib.loads(TEXT)) if path]))
    line = TEXT.splitlines()[line_of(TEXT, path) - 1]
    last = [part for part in path if isinstance(part, str)][-1]
    value: Any = tomllib.loads(TEXT)
    for part in path:
        value = value[part]
    assert last in line or str(value) in line or line.strip().startswith(("[[", "{"))


TOML_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
TOML_VALUE = st.recursive(
    st.integers(-5, 5) | TOML_TEXT | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TOML_TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TOML_TEXT, TOML_VALUE, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_scanner_walks_whatever_the_parser_accepts(document: dict[str, Any], random: Any) -> None:
    """Written with line breaks wherever TOML allows them; the scanner's keys are the parser's, each on its line."""
    lines = [""]
    places: dict[tuple[str | int, ...], int] = {}

    def write(text: str) -> None:
        lines[-1] += text

    def string(text: str) -> str:
        inner = text.replace("\\", "\\\\").replace('"', '\\"')
        return random.choice([f'"{inner}"', f'"""\n{inner}"""'])

    def key(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    def emit(text: str) -> None:
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append("")
            write(part)

    def value(found: Any, path: tuple[str | int, ...]) -> None:
        if isinstance(found, list):
            write("[")
            for index, part in enumerate(found):
                if random.random() < 0.5:
                    write("# ] , [")
                    lines.append("")
                places[(*path, index)] = len(lines)
                value(part, (*path, index))
                write(" ,")
            write("]")
        elif isinstance(found, dict):
            write("{ ")
            for index, (name, part) in enumerate(found.items()):
                write(", " if index else "")
                places[(*path, name)] = len(lines)
                write(f"{key(name)} = ")
                value(part, (*path, name))
            write(" }")
        elif isinstance(found, str):
            emit(string(found))
        else:
            write(str(found).lower())

    for name, part in document.items():
        places[(name,)] = len(lines)
        write(f"{key(name)}\t= ")
        value(part, (name,))
        write(" # a comment")
        lines.append("")
    text = "\n".join(lines)
    assert tomllib.loads(text) == document
    for path, line in places.items():
        assert line_of(text, path) == line
