"""`conform`: the contract of a closed-loop client, kept by ours and by the one on the page, and broken rule by rule."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner import conform
from runner.conform import BROKEN, HOLDS, RULES, UNCHECKED, Verdict
from runner.contract import Evidence
from runner.errors import WrongUse
from tests.bundled import ROOT
from tests.database import WORKLOADS, Server
from tests.gomodule import go_folder

HARNESS = ROOT / "tests" / "harness"
MINIMAL = HARNESS / "minimal_client.py"
PAGE = (ROOT / "book" / "client.md").read_text()
VARIANTS = {
    **{rule.identifier: rule.identifier for rule in RULES},
    "configuration-workers": "configuration",
    "configuration-digest": "configuration",
    "unknown-parameter-unnamed": "unknown-parameter",
    "wrong-answer-log": "wrong-answer",
    "stages-origin": "stages",
    "log-header-legend": "log-header",
    "log-tags-none": "log-tags",
    "log-decodes-base64": "log-decodes",
}


def examine(*command: str, workers: int = 1, limit_s: float = 30) -> dict[str, Verdict]:
    wanted = conform.asked("lookup", json.dumps({"workers": workers}), "{}", 2)
    evidence = conform.gather([sys.executable, *command], wanted, limit_s, [], lambda _: None)
    return {verdict.rule.identifier: verdict for verdict in conform.judge(evidence)}


def needed_by(identifier: str) -> set[str]:
    """The rules that cannot be looked at without this one."""
    found = {identifier}
    for rule in RULES:  # a rule needs earlier ones alone
        if found & set(rule.needs):
            found.add(rule.identifier)
    return found - {identifier}


def command(*options: str, client: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "runner", "conform", *options, "--", sys.executable, *client]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


# ---- clients that keep to it


@pytest.mark.parametrize("workers", [1, 3])
def test_the_client_on_the_page_conforms(workers: int) -> None:
    verdicts = examine(str(MINIMAL), workers=workers)
    assert {name: verdict.lines() for name, verdict in verdicts.items() if verdict.state != HOLDS} == {}


def test_a_client_in_go_conforms(tmp_path: Path) -> None:
    """The contract asks for nothing of Python's: the same client in Go, built with the toolchain of the test requirements."""
    binary = tmp_path / "goclient"
    settings = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local", "HOME": str(tmp_path)}
    settings["PATH"] = f"{go_folder()}{os.pathsep}{os.environ['PATH']}"
    build = ["go", "build", "-o", str(binary), "."]
    subprocess.run(build, cwd=HARNESS / "goclient", env=os.environ | settings, check=True, timeout=300)
    wanted = conform.asked("lookup", '{"workers": 3, "measured_operations": 500}', "{}", 2)
    verdicts = conform.judge(conform.gather([str(binary)], wanted, 30, [], lambda _: None))
    assert {verdict.rule.identifier: verdict.state for verdict in verdicts} == {r.identifier: HOLDS for r in RULES}


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        ("get100", {"rows": 200, "workers": 2}),
        ("codec", {"rows": 50, "batch": 50, "measured_operations": 5}),
        ("batchset50", {"rows": 100, "batch": 50, "measured_operations": 5}),
    ],
)
def test_the_bundled_client_conforms(
    server: Server, pythons: dict[str, Path], monkeypatch: pytest.MonkeyPatch, case: str, changes: dict[str, int]
) -> None:
    database = "conform"
    for name, value in (server.environment | {"PGDATABASE": database}).items():
        monkeypatch.setenv(name, value)
    wanted = conform.asked(case, json.dumps({"value_bytes": 100} | changes), '{"client": "pg8000"}', 2)
    before = [str(server.programs / "psql"), "-Xq", "-d", "postgres"]
    before += ["-c", f"DROP DATABASE IF EXISTS {database}", "-c", f"CREATE DATABASE {database}"]
    harness = [str(pythons["final"]), "-B", "-s", str(WORKLOADS / "clients.py")]
    verdicts = conform.judge(conform.gather(harness, wanted, 60, before, lambda _: None))
    assert [verdict.lines() for verdict in verdicts if verdict.state != HOLDS] == []


# ---- clients that do not


def test_every_rule_has_a_client_that_breaks_it() -> None:
    assert set(VARIANTS.values()) == {rule.identifier for rule in RULES}


@pytest.mark.parametrize(("variant", "broken"), VARIANTS.items())
def test_exactly_that_rule_does_not_hold(variant: str, broken: str) -> None:
    verdicts = examine(str(HARNESS / "broken_client.py"), variant)
    found = {name: verdict for name, verdict in verdicts.items() if verdict.state == BROKEN}
    assert set(found) == {broken}, [verdict.lines() for verdict in found.values()]
    assert {name for name, verdict in verdicts.items() if verdict.state == UNCHECKED} == needed_by(broken)
    shown = "\n".join(found[broken].lines())
    assert re.search(r"expected: \S.*\n    found: \S.*\n    what to do: \S", shown), shown


def test_what_a_client_need_not_have_is_not_checked() -> None:
    verdicts = examine(str(HARNESS / "broken_client.py"), "not-declared")
    assert {name for name, verdict in verdicts.items() if verdict.state != HOLDS} == {"wrong-answer"}
    assert "no parameter corrupt" in verdicts["wrong-answer"].found


def test_a_client_that_never_ends_is_ended() -> None:
    verdicts = examine(str(HARNESS / "broken_client.py"), "hang", limit_s=0.3)
    assert verdicts["done"].found == "the time limit"
    assert verdicts["mean"].state == UNCHECKED


@pytest.fixture(scope="module")
def good() -> Evidence:
    wanted = conform.asked("lookup", '{"workers": 2}', "{}", 2)
    return conform.gather([sys.executable, str(MINIMAL)], wanted, 30, [], lambda _: None)


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["stdout", "log"]),
        st.integers(0, 1 << 16),
        st.integers(0, 40),
        st.sampled_from(
            [b"", b"\n", b" ", b"-", b"0", b"9" * 30, b"e400", b"ns/op", b",", b"\xff", b"Benchmark", b": "]
        ),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=300, deadline=None)
@given(edits=EDITS)
def test_whatever_a_client_leaves_behind_is_judged(good: Evidence, edits: list[tuple[str, int, int, bytes]]) -> None:
    """With parts of its output cut out and others put in their place: a verdict for every rule, and no exception."""
    data = {"stdout": good.done.stdout, "log": good.done.files["latency.hlog"]}
    for name, place, length, text in edits:
        at = place % (len(data[name]) + 1)
        data[name] = data[name][:at] + text + data[name][at + length :]
    ran = replace(good.done, stdout=data["stdout"], files={"latency.hlog": data["log"]})
    for runs in ({"done": ran}, {"again": ran, "other-payload": ran}):
        verdicts = conform.judge(replace(good, runs={**good.runs, **runs}))
        assert [verdict.rule for verdict in verdicts] == list(RULES)
        assert all("\n" not in line for verdict in verdicts for line in verdict.lines())


# ---- the command


def test_what_the_command_prints() -> None:
    done = command("--case", "lookup", client=(str(MINIMAL),))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        0,
        f"{len(RULES)} rules: {len(RULES)} hold, 0 do not hold, 0 not checked",
    )
    done = command("--case", "lookup", "--json", client=(str(HARNESS / "broken_client.py"), "mean"))
    assert done.returncode == 1
    states = {entry["rule"]: entry["state"] for entry in json.loads(done.stdout)}
    assert list(states) == [rule.identifier for rule in RULES]
    assert [name for name, state in states.items() if state != HOLDS] == ["mean"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--parameters", "{"], "not JSON"),
        (["--switches", "[]"], "JSON object"),
        (["--parameters", '{"workers": 0}'], "whole numbers above 0"),
        (["--parameters", '{"payload_seed": true}'], "whole numbers above 0"),
        (["--before", "'"], "quotation"),
        (["--before", "no-such-program"], "no such program"),
        (["--repeats", "0"], "--repeats"),
    ],
)
def test_wrong_use(options: list[str], word: str) -> None:
    done = command(*options, client=(str(MINIMAL),))
    assert (done.returncode, done.stdout) == (2, "")
    assert word in done.stderr


def test_a_client_that_is_not_there() -> None:
    with pytest.raises(WrongUse, match="no such program"):
        conform.gather(["no-such-client"], conform.asked("x", "{}", "{}", 1), 1, [], lambda _: None)


def test_a_client_that_is_no_program(tmp_path: Path) -> None:
    path = tmp_path / "client"
    path.write_text("nothing that a kernel executes")
    path.chmod(0o755)
    with pytest.raises(WrongUse, match="cannot be executed"):
        conform.gather([str(path)], conform.asked("x", "{}", "{}", 1), 1, [], lambda _: None)


def test_a_script_that_is_not_there_keeps_to_nothing() -> None:
    """Python itself ends with status 2, which must not pass for a refusal of what is unknown."""
    assert HOLDS not in {verdict.state for verdict in examine("no_such_client.py").values()}


# ---- the page


def test_every_rule_is_on_the_page() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
    told = [tuple(part.replace("`", "").replace("\\", "") for part in row) for row in rows]
    assert told == [(rule.identifier, rule.what, rule.remedy) for rule in RULES]


def test_the_client_on_the_page_is_the_one_that_was_checked() -> None:
    assert f"```python\n{MINIMAL.read_text()}```\n" in PAGE


def test_the_page_says_how_often_a_client_is_executed() -> None:
    assert len(conform.probes(conform.asked("lookup", "{}", "{}", 1))) == 11
    assert "executed eleven times" in PAGE


def test_rules_need_earlier_ones_alone() -> None:
    seen: set[str] = set()
    for rule in RULES:
        assert set(rule.needs) <= seen
        assert rule.identifier not in seen
        seen.add(rule.identifier)
