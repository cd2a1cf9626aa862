"""Bad plans of every kind: damage at each key of the bundled plan, absurd sizes, paths and links that leave the campaign."""

from __future__ import annotations

import os
import re
import tomllib
import unicodedata
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from runner.errors import PlanError
from runner.files import escape
from runner.planfile import LARGEST_PLAN, load, load_open, parse
from tests.bundled import CAMPAIGN
from tests.plan_damage import Place, damaged, damages, written
from tests.small import TEXT, changed

DOCUMENT = tomllib.loads((CAMPAIGN / "plan.toml").read_text(encoding="utf-8"))
DAMAGES = damages(DOCUMENT)


def shown(place: Place) -> str:
    return ".".join(map(str, place))


def judged(place: Place, how: str) -> bool:
    """Whether a damaged plan is refused; then every problem has file, line and key path, and the line is that of the key."""
    text, lines = written(damaged(DOCUMENT, place, how))
    problem = refused(text)
    if problem is None:
        return False
    first, *rows = problem.splitlines()
    assert re.fullmatch(r"plan\.toml: \d+ problems? in the plan", first), (place, how, first)
    by_name = {shown(found): line for found, line in lines.items()}
    paths = []
    for row in rows:
        match = re.match(r"  plan\.toml:(\d+): (.+?): (.*)", row)
        assert match, (place, how, row)
        assert int(match[1]) == by_name.get(match[2], int(match[1])), (place, how, row)
        paths.append(match[2])
    near = any(path.startswith(shown(place[:-1])) or shown(place).startswith(path) for path in paths)
    assert near or str(place[-1]) in problem or named_elsewhere(place), (place, how, rows[:3])
    return True


def refused(text: str) -> str | None:
    try:
        parse(text, "plan.toml")
    except PlanError as error:
        return str(error)
    return None


def named_elsewhere(place: Place) -> bool:
    """Whether other keys refer to this one, so that the problem is where they do."""
    return place[-1] in ("name", "unit", "numerator", "denominator") or place[0] in (
        "trees",
        "fixtures",
        "engine",
        "network",
    )


def test_a_plan_that_is_written_anew_is_the_same_plan() -> None:
    text, lines = written(DOCUMENT)
    assert tomllib.loads(text) == DOCUMENT
    assert parse(text) == load(CAMPAIGN / "plan.toml")
    assert lines["statistics", "level"] == 1 + text.splitlines().index("level = 0.95")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(DAMAGES))
@example((("phases", "A", "arms", 0, "tree"), "gone"))
@example((("phases", "A", "blocks"), "number"))
@example((("phases", "A", "cases", 0), "twice"))
@example((("format",), "number"))
@example((("engine", "version"), "outside"))
@example((("trees", "legacy", "lock"), "absolute"))
def test_damage_at_any_key_is_named_with_its_line_or_leaves_a_valid_plan(damage: tuple[Place, str]) -> None:
    """A key of the bundled plan that is deleted, renamed, doubled, retyped or out of range: an error with its line, or a plan."""
    judged(*damage)


@pytest.mark.slow
def test_damage_at_every_key() -> None:
    """Every key of the bundled plan, each in a third of the ways: 1,600 plans."""
    some = DAMAGES[::3]
    assert len({place for place, _ in some}) == len({place for place, _ in DAMAGES})
    count = sum(judged(*damage) for damage in some)
    assert count > 0.7 * len(some)


@pytest.mark.parametrize("how", ["number", "negative", "true", "list", "table", "nan", "absurd", "beyond"])
@pytest.mark.parametrize(
    "place",
    [
        ("campaign", "id"),
        ("phases", "A", "cases", 0, "name"),
        ("phases", "A", "arms", 0, "tree"),
        ("phases", "A", "contrasts", 0, "numerator"),
        ("trees", "final", "lock"),
        ("harness", "files", 0),
    ],
)
def test_a_wrong_type_is_refused_with_what_was_found(place: Place, how: str) -> None:
    """A number, a truth value or a table where text belongs: refused at its own key."""
    assert judged(place, how)


@pytest.mark.parametrize(
    "place",
    [
        ("phases", "A", "blocks"),
        ("phases", "A", "repeats"),
        ("statistics", "resamples"),
        ("statistics", "seed"),
        ("rules", "run_limit_s"),
        ("rules", "replacement_blocks"),
        ("rules", "checks", "swap_pages"),
        ("phases", "A", "cases", 0, "expected_s"),
    ],
)
@pytest.mark.parametrize("how", ["absurd", "nan", "inf", "negative", "text", "table"])
def test_an_absurd_number_is_refused(place: Place, how: str) -> None:
    """Not a number, infinite, beyond 64 bit or below zero: refused at its own key."""
    assert judged(place, how)


@pytest.mark.parametrize("how", ["outside", "absolute", "line", "nul", "empty", "long"])
@pytest.mark.parametrize(
    "place",
    [
        ("trees", "final", "lock"),
        ("harness", "source"),
        ("harness", "files", 0),
        ("phases", "A", "outputs", 0),
        ("engine", "version"),
        ("campaign", "id"),
    ],
)
def test_a_path_that_leaves_its_folder_is_refused_in_every_key_that_becomes_one(place: Place, how: str) -> None:
    """`..`, a path from the root, a line break or a NUL byte in a key that becomes a path: refused at its own key."""
    assert judged(place, how)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "format = 1\nx = " + "[" * 100 + "]" * 100,
            "plan.toml:2: not a plan\n  expected: at most 30 arrays and tables",
        ),
        ("format = 1\nx = " + "{ a = " * 300 + "1" + "}" * 300, "plan.toml:2: not a plan"),
        ("format = 1\nx = " + "[" * 9_000 + "]" * 9_000, "at most 30 arrays and tables inside each other"),
        ("a." * 5_000 + "a = 1", "plan.toml:1: not a plan\n  expected: at most 30 arrays and tables"),
        ("\n[" + ".".join("a" * 100) + "]", "plan.toml:2: not a plan"),
        ("format = 1\nx = " + "9" * 5_000, "plan.toml:2: not a plan\n  expected: numbers of at most 4000 digits"),
        (
            'format = 1\nx = "' + "y" * 30_000 + '"',
            "plan.toml:2: not a plan\n  expected: lines of at most 20000 characters",
        ),
        (
            changed("level = 0.95", "level = 0.95\nlevel = 0.9"),
            "Cannot overwrite a value (at line 15, column 12): 'level = 0.9'",
        ),
        (
            changed("resamples = 20000", f"resamples = {10**3000}"),
            "statistics.resamples: Input should be less than or equal to",
        ),
        (
            changed("blocks = 6", f"blocks = {10**9}"),
            "phases.A.blocks: Input should be less than or equal to 1000, found 1000000000",
        ),
        (
            changed('title = "First"', f'title = """\n{"x y" * 5_000}"""'),
            "phases.A.title: String should have at most 2000",
        ),
        (TEXT + "".join(f"\n[extra{i}]\n" for i in range(5_000)), "plan.toml: 5000 problems in the plan"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_absurd_sizes_are_refused_at_once(text: str, words: str) -> None:
    """Deep nesting, endless keys, numbers, lines and lists: refused with the line, before they keep a parser busy."""
    with pytest.raises(PlanError, match=re.escape(words)):
        parse(text)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("level = 0.95", "levle = 0.95", "statistics.levle: unknown key; expected 'level'?"),
        ("[campaign]", "[campain]", "campain: unknown key; expected 'campaign'?"),
        ('better = "lower"', 'beter = "lower"', "phases.A.metrics.0.beter: unknown key; expected 'better'?"),
        ('all_but = ["Save"]', 'allbut = ["Save"]', "phases.B.claims.0.cases.allbut: unknown key; expected 'all_but'?"),
        ('lock = "trees/old.txt"', 'lok = "trees/old.txt"', "trees.old.lok: unknown key; expected 'lock'?"),
        ("swap_pages = 0", "swop_pages = 0", "rules.checks.swop_pages: unknown key; expected 'swap_pages'?"),
        ('kind = "veth"', 'kind = "veth"\nzzz = 1', "network.zzz: unknown key; expected one of kind, delay_us"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(old: str, new: str, words: str) -> None:
    """A misspelt key is an error that says which key was meant, or which there are."""
    with pytest.raises(PlanError, match=re.escape(words)):
        parse(changed(old, new))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'argv = ["{python}"',
            'argv = ["", "{python}"',
            "phases.A.argv: expected the name of a program as the first word, found ''",
        ),
        ('"host-down"]', '"runner-killed"]', "rules.interruptions.1: 'runner-killed' is there twice"),
        (
            "calibration_ratio = 1.25",
            "calibration_ratio = 1e300",
            "rules.checks.calibration_ratio: Input should be less than",
        ),
        ('version = "18"', 'version = "../../bin"', "engine.version: String should match pattern"),
        (
            'fsync = "off"',
            "fsync = \"off\\nlisten_addresses = '*'\"",
            "engine.settings.fsync: String should match pattern",
        ),
        (
            'PYTHONHASHSEED = "{block}"',
            'PYTHONHASHSEED = "0\\u0000"',
            "phases.B.environment.PYTHONHASHSEED: String should match",
        ),
    ],
)
def test_what_could_not_be_executed_is_refused_before(old: str, new: str, words: str) -> None:
    """No program, a NUL byte, a second line of a server's settings, a version that is a path: refused at its own key."""
    with pytest.raises(PlanError, match=re.escape(words)):
        parse(changed(old, new))


# Files


def campaign(tmp_path: Path, text: str = TEXT) -> Path:
    folder = tmp_path / "small"
    (folder / "trees").mkdir(parents=True)
    (folder / "plan.toml").write_text(text, encoding="utf-8")
    for name in ("old", "new"):
        (folder / "trees" / f"{name}.txt").write_text("")
    return folder


def test_a_link_on_the_way_of_a_path_is_refused(tmp_path: Path) -> None:
    """A lock file, a folder of them or a harness that is a link out of the campaign: an error with the key and its line."""
    folder = campaign(tmp_path)
    load(folder / "plan.toml")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "old.txt").write_text("")
    (folder / "trees" / "old.txt").unlink()
    (folder / "trees" / "old.txt").symlink_to(outside / "old.txt")
    words = r"plan\.toml:61: trees\.old\.lock: expected a path below small, found the link 'trees/old.txt'"
    for reader in (load, load_open):
        with pytest.raises(PlanError, match=words):
            reader(folder / "plan.toml")
    own = campaign(tmp_path / "own", TEXT.replace('source = "workloads"\n', ""))
    (own / "harness").symlink_to(outside)
    with pytest.raises(PlanError, match=r"harness\.files\.0: expected a path below small, found the link 'harness'"):
        load(own / "plan.toml")


def test_a_plan_that_is_no_plain_file_or_too_large_is_refused(tmp_path: Path) -> None:
    """A link, a pipe or four megabytes in the place of a plan: refused before it is read."""
    folder = campaign(tmp_path)
    (folder / "link.toml").symlink_to("plan.toml")
    os.mkfifo(folder / "pipe.toml")
    (folder / "large.toml").write_bytes(b"#" * (LARGEST_PLAN + 1))
    for name, words in (("link", "not a file"), ("pipe", "not a file"), ("large", "too large for a plan")):
        with pytest.raises(PlanError, match=words):
            load(folder / f"{name}.toml")


def test_a_plan_of_another_encoding_is_refused_with_the_line(tmp_path: Path) -> None:
    """UTF-16 of either order, a byte order mark, and bytes that are not UTF-8: each an error with its line."""
    folder = campaign(tmp_path)
    path = folder / "plan.toml"
    for data, words in (
        (TEXT.encode("utf-16"), "plan.toml:1: not UTF-8"),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), "plan.toml:1: not UTF-8"),
        (TEXT.encode("utf-8-sig"), "plan.toml:1: not valid TOML"),
        (TEXT.encode().replace(b"one key", b"one \xff", 1), "plan.toml:103: not UTF-8"),
    ):
        path.write_bytes(data)
        with pytest.raises(PlanError, match=re.escape(words)):
            load(path)
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    assert load(path).campaign.id == "small"


# Names and folders

CASE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=12)
SPELT = st.sampled_from(
    [str, str.upper, str.lower, str.swapcase, str.casefold, *(lambda name, form=form: unicodedata.normalize(form, name)
     for form in ("NFC", "NFD", "NFKC", "NFKD")), escape, lambda name: name.replace("/", "%2f"), lambda name: name + "%20"]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(CASE, CASE, SPELT)
@example("Get", "Get", str.upper)
@example("a/b", "a/b", escape)
@example("\u00e9", "\u00e9", lambda name: unicodedata.normalize("NFD", name))
@example("\ufb01t", "\ufb01t", lambda name: unicodedata.normalize("NFKC", name))
@example("Stra\u00dfe", "Stra\u00dfe", str.upper)
@example("\u212a", "\u212a", str.lower)
def test_two_cases_of_a_plan_never_share_a_folder(first: str, base: str, spelt: object) -> None:
    """Names that differ in case, in escapes or in how a character is composed: refused; others have folders apart anywhere."""
    assert callable(spelt)
    second = str(spelt(base if len(base) % 2 else first)) or "x"
    assume(re.fullmatch(r"[^\s\x00-\x1f\x7f]{1,120}", second) is not None)
    text = changed('name = "Get"', f"name = {_quoted(first)}").replace('cases = ["Get"]', f"cases = [{_quoted(first)}]")
    text = text.replace('name = "Set"', f"name = {_quoted(second)}", 1)
    try:
        plan = parse(text)
    except PlanError as error:
        if re.search(r"phases\.A\.cases\.[01]\.name: ", str(error)):
            return
        raise
    names = [case.name for case in plan.phases["A"].cases]
    folders = {unicodedata.normalize("NFKC", escape(name)).casefold() for name in names}
    assert len(folders) == len(names) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9_.~%-]+", folder) and folder not in (".", "..") for folder in folders)


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
