"""The runner cannot write a wrong label: it comes from the plan's entry, as one value that is passed on whole."""

from __future__ import annotations

import ast
import csv
import dataclasses
import re
from pathlib import Path

import pytest

from runner import close, record
from runner.orders import Labels
from runner.store import Store
from tests import campaigns
from tests.campaigns import PROJECT, Campaign
from tests.harness.tiny import made_up

# Cases and arms that are called like what a loop over a process's usage would come across, and like each other.
CASES = ("utime", "utime/stime", "one")
ARMS = ("utime", "one")
SHADOWS = 'case = "one", arm = "utime", name = "maxrss", labels = "utime/stime", value = "one"'


def confusing(parent: Path, cache: Path, order_seed: int) -> Campaign:
    """A campaign whose cases have the names of CPU fields and arms, and each other's names among their parameters."""
    made = campaigns.write(parent, cache, blocks=2, arms=ARMS, cases=CASES)
    plan = made.folder / "plan.toml"
    text = plan.read_text().replace("order_seed = 3", f"order_seed = {order_seed}")
    text = text.replace("parameters = { rows = 10, ", f"parameters = {{ rows = 10, {SHADOWS}, ")
    text = text.replace('numerator = "two"', 'numerator = "utime"').replace("two/one", "utime/one")
    assert text.count(SHADOWS) == len(CASES)
    plan.write_text(text)
    return made


@pytest.mark.parametrize("order_seed", [17, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (3, 5, 91))])
def test_every_row_has_the_label_of_the_process_that_measured_it(tmp_path: Path, cache: Path, order_seed: int) -> None:
    """Cases, arms and parameters are called like each other and like CPU fields, in several orders: no label is wrong."""
    made = confusing(tmp_path, cache, order_seed)
    made.does("seal")
    made.does("run")
    planned = [(run["case"], run["arm"], run["block"]) for run in made.orders()]
    assert [(line["case"], line["arm"], line["block"]) for line in made.trace()] == planned
    assert len({planned.index(run) for run in planned}) == len(CASES) * len(ARMS) * 2
    rows = list(csv.DictReader((made.folder / "metrics.csv").open(newline="")))
    assert len(rows) == len(planned) * 3  # two repeats of one metric, one value of the other
    for row in rows:
        block = int(row["block"]) if row["metric"] == "ns/op" else 0
        assert float(row["value"]) == made_up(row["case"], row["arm"], block, int(row["repeat"])), row
    for labels in made.orders():
        assert made.record(labels)["labels"] == labels
    done = made.python("-m", "analysis", "labels", str(made.folder))
    assert done.returncode == 0, done.stdout
    made.does("verify")


# ---- where labels come from ---------------------------------------------------------------------------

SOURCES = sorted(path for name in ("runner", "analysis") for path in (PROJECT / name).rglob("*.py"))
MADE_IN = {
    "runner/orders.py": 1,  # the plan's expansion
    "runner/amended_orders.py": 1,  # the same of blocks that an amendment adds
    "runner/protocol.py": 2,  # whole, as the journal has them
    "runner/ledger.py": 2,  # whole, as the journal has them; then they must be among the planned ones
    "runner/store.py": 1,  # whole, as a record or the orders have them
    "runner/adoptruns.py": 1,  # of logs from elsewhere, which no plan has ordered
}
# A replacement's own number and place, the place of what an amendment adds, and nothing else.
MADE_OTHERWISE = {"runner/ledger.py": {"block", "sequence"}, "runner/amended_orders.py": {"sequence"}}


def calls(path: Path, name: str) -> list[ast.Call]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == name]


def shown(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


def test_labels_are_expanded_from_the_plan_or_read_whole() -> None:
    """Read from the source: Labels are expanded from the plan, or read whole; no other code puts one together."""
    found = {shown(path): len(calls(path, "Labels")) for path in SOURCES}
    assert {name: count for name, count in found.items() if count} == MADE_IN
    for name in ("runner/ledger.py", "runner/store.py", "runner/protocol.py"):
        for call in calls(PROJECT / name, "Labels"):
            assert not call.args and [keyword.arg for keyword in call.keywords] == [None]  # Labels(**whole)


def test_no_label_is_changed_after_it_was_made() -> None:
    """Labels are frozen; a replacement block or an amendment gives another number and place, never another case or arm."""
    labels = Labels("P", "Load", "one", 1, 0, 0)
    for field in dataclasses.fields(Labels):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(labels, field.name, "utime")
    for path in SOURCES:
        for call in calls(path, "replace"):
            fields = {keyword.arg for keyword in call.keywords} & {field.name for field in dataclasses.fields(Labels)}
            assert fields <= MADE_OTHERWISE.get(shown(path), set()), (shown(path), call.lineno)
        assert not calls(path, "__setattr__"), shown(path)


WRITERS = (record.execute_run, record._finish, record.record_interrupted, close.append_metrics, Store.run_folder)


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
def test_what_writes_takes_the_label_as_one_value(writer: object) -> None:
    """Every function that writes a run takes Labels, and no case, arm or block of its own that a loop could hide."""
    annotations = dict(writer.__annotations__)
    assert annotations["labels"] == "Labels"
    assert not annotations.keys() & {"case", "arm", "block", "position", "sequence"}


@pytest.mark.parametrize("module", [record, close], ids=lambda module: module.__name__)
def test_no_loop_takes_the_name_that_holds_a_label(module: object) -> None:
    """No loop or comprehension inside of the modules that write runs binds `labels` a second time in one function."""
    assert bound_twice(Path(str(module.__file__)).read_text(encoding="utf-8")) == []  # type: ignore[attr-defined]


def bound_twice(source: str) -> list[str]:
    """Functions in which a loop binds the name of one of their arguments again."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            given = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
            loops = [n for n in ast.walk(function) if isinstance(n, ast.For | ast.comprehension)]
            names = {n.id for loop in loops for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
            found += [f"{function.name}: {name}" for name in sorted(given & names)]
    return found


def test_the_slip_would_be_found() -> None:
    """The guard fires: the loop that cost a campaign its labels is named."""
    slip = "def write(case, usage):\n for case in usage:\n  pass\n return case\n"
    assert bound_twice(slip) == ["write: case"]
    assert not re.search("for case in", Path(record.__file__).read_text())
