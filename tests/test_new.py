"""A shortened copy of a plan: what is dropped, what stays, and that it is a good plan."""

from __future__ import annotations

import os
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from runner import host, new
from runner.errors import Refused
from runner.new import new_from, shorten
from runner.plan import AllBut
from runner.planfile import parse
from runner.store import Store
from tests.small import TEXT, changed

CPUS = {"housekeeping": "0-1", "server": "2-7", "client": "8-15"}


def short(text: str = TEXT, *, root: bool = True) -> str:
    return shorten(text, "quick", "small", root=root, cpus=CPUS)


def test_a_shortened_plan_is_a_plan() -> None:
    found = parse(short())
    assert (found.campaign.id, found.campaign.short) == ("quick", "small")
    assert found.campaign.title.startswith("Two questions (short")
    assert found.short is None
    assert list(found.phases) == ["B"]
    assert found.phases["B"].blocks == 4
    assert [case.name for case in found.phases["B"].cases] == ["Save", "Scan/serial"]
    assert found.host.cpus.model_dump() == CPUS
    assert found.network.kind == "veth"


def test_metrics_and_fixtures_go_with_their_cases() -> None:
    of_gone = changed('scope = "bytes allocated"', 'scope = "bytes"\ncases = ["Scan/pipelined"]')
    of_gone = of_gone.replace('metric = "B/op"', 'metric = "ns/op"')
    found = parse(short(of_gone)).phases["B"]
    assert [metric.unit for metric in found.metrics] == ["ns/op"]
    of_some = changed('scope = "bytes allocated"', 'scope = "bytes"\ncases = { all_but = ["Save"] }')
    of_some = of_some.replace('metric = "B/op"', 'metric = "ns/op"')
    assert parse(short(of_some)).phases["B"].cases_of("B/op") == ("Scan/serial",)
    fixtures = "".join(
        f'[fixtures.{name}]\nwhat = "x"\ntree = "{tree}"\nargv = ["{{python}}"]\n'
        for name, tree in (("kept", "old"), ("gone", "old"))
    )
    used = changed('primary_metric = "ns/op"', 'primary_metric = "ns/op"\nfixture = "kept"', "[phases.B]")
    plan = parse(short(used.replace("[phases.A]", fixtures + "[phases.A]", 1)))
    assert list(plan.fixtures) == ["kept"]
    assert set(plan.trees) == {"old", "new"}  # no arm of what is left has the old one; the fixture has


def test_a_family_whose_metric_is_gone_is_of_the_primary_one() -> None:
    text = changed('scope = "bytes allocated"', 'scope = "bytes"\ncases = ["Scan/pipelined"]')
    text = text.replace('metric = "B/op"', 'metric = "ns/op"')
    start = text.index("[phases.B.holm]")
    text = text[:start] + text[start:].replace('metrics = ["ns/op"', 'metrics = ["B/op"', 1)
    assert parse(short(text)).phases["B"].holm.metrics == ("ns/op",)


def test_claims_go_with_their_cases() -> None:
    claims = {claim.id: claim for claim in parse(short()).phases["B"].claims}
    assert list(claims) == ["B1", "B3", "B4"]  # B2 was of a case that is gone
    assert claims["B1"].cases == AllBut(all_but=("Save",))
    assert claims["B3"].cases == "all"
    assert claims["B4"].cases == ("Scan/serial",)


def test_all_but_what_is_gone_is_all() -> None:
    claims = parse(short(changed('all_but = ["Save"]', 'all_but = ["Scan/pipelined"]'))).phases["B"].claims
    assert claims[0].cases == "all"
    claims = parse(short(changed('all_but = ["Save"]', 'all_but = ["Save", "Scan/pipelined"]'))).phases["B"].claims
    assert claims[0].cases == AllBut(all_but=("Save",))


def test_a_claim_about_nothing_that_is_left_goes() -> None:
    claims = parse(short(changed('all_but = ["Save"]', 'all_but = ["Save", "Scan/serial"]'))).phases["B"].claims
    assert [claim.id for claim in claims] == ["B3", "B4"]


def test_a_claim_of_several_cases_goes_with_one_of_them() -> None:
    claims = parse(short(changed('["Scan/serial"]', '["Scan/serial", "Scan/pipelined"]'))).phases["B"].claims
    assert [claim.id for claim in claims] == ["B1", "B3"]


def test_the_largest_of_fewer_is_another_claim() -> None:
    claims = parse(short(changed('cases = ["Scan/pipelined"]', 'cases = ["Save"]'))).phases["B"].claims
    assert "B2" not in [claim.id for claim in claims]


def test_a_plan_may_lose_all_claims() -> None:
    text = (
        TEXT.replace('cases = "all"', 'cases = ["Scan/pipelined"]')
        .replace("{ all_but = ", "")
        .replace("] }   # the scans", "]")
    )
    text = text.replace('cases = ["Scan/serial"]', 'cases = ["Scan/pipelined"]').replace(
        'cases = ["Save"]\n', 'cases = ["Scan/pipelined"]\n'
    )
    assert parse(short(text)).phases["B"].claims == ()


def test_everything_else_stays_also_comments() -> None:
    found = short()
    for line in (
        "# A small plan for tests. Nothing in it was ever executed.",
        'is faster?"""   # a text of several lines',
        'kind = "veth"   # or "loopback"',
        '  "one.py",   # the first',
        "[[phases.B.cases]]  # the first case",
        'text = "A serial scan allocates the same."   # a comment that stays',
    ):
        assert line in found.splitlines()
    before, after = tomllib.loads(TEXT), tomllib.loads(found)
    for key in ("statistics", "engine", "harness", "rules"):
        assert after[key] == before[key]
    gone = {"blocks", "cases", "claims", "limits"}
    kept = {key: value for key, value in before["phases"]["B"].items() if key not in gone}
    assert {key: value for key, value in after["phases"]["B"].items() if key not in gone} == kept
    assert after["phases"]["B"]["cases"] == before["phases"]["B"]["cases"][:2]


@pytest.mark.parametrize("text", [TEXT, changed("order_seed = 5\n", 'order_seed = 5\nlimits = ["About it."]\n')])
def test_limits_are_those_of_a_shortened_copy(text: str) -> None:
    assert parse(short(text)).phases["B"].limits == (
        "A shortened copy of small, with fewer cases and blocks; its plan names the limits that were written there.",
    )


def test_trees_that_no_phase_uses_any_more_go() -> None:
    assert list(parse(short()).trees) == ["new"]
    both = changed('tree = "new"', 'tree = "old"', after="[phases.B]")
    assert list(parse(short(both)).trees) == ["old", "new"]


@pytest.mark.parametrize(
    ("kind", "root", "found"),
    [("veth", True, "veth"), ("veth", False, "loopback"), ("loopback", True, "loopback"), ("none", False, "none")],
)
def test_without_root_there_is_no_veth(kind: str, root: bool, found: str) -> None:
    text = changed('kind = "veth"', f'kind = "{kind}"')
    assert tomllib.loads(short(text, root=root))["network"]["kind"] == found


def test_the_bundled_plan_can_be_shortened() -> None:
    for path in sorted((Path(__file__).parent.parent / "data").glob("pgstack-*/plan.toml")):
        text = path.read_text(encoding="utf-8")
        found = parse(short(text, root=False))
        assert [case.name for case in found.phases["B"].cases] == list(parse(text).short.cases["B"])  # type: ignore[union-attr]
        assert found.phases["B"].claims


@pytest.fixture
def source(tmp_path: Path) -> Store:
    folder = tmp_path / "small"
    (folder / "trees").mkdir(parents=True)
    (folder / "plan.toml").write_text(TEXT)
    for name in ("old", "new"):
        (folder / "trees" / f"{name}.txt").write_text(f"# {name}\n")
    return Store.open(folder)


def test_a_new_campaign_of_this_host(source: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "siblings", lambda: [(0,), (1,)])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    made = new_from(source, tmp_path / "quick")
    plan = made.plan()
    assert (plan.campaign.id, plan.campaign.short, plan.network.kind) == ("quick", "small", "loopback")
    assert plan.host.cpus.model_dump() == {"housekeeping": "0", "server": "0", "client": "1"}
    assert sorted(made.files()) == ["plan.toml", "trees/new.txt"]  # no phase that is left uses the old tree
    assert (made.folder / "trees/new.txt").read_text() == "# new\n"
    with pytest.raises(Refused, match="this folder exists already"):
        new_from(source, tmp_path / "quick")
    with pytest.raises(Refused, match=r"this plan has no \[short\] table"):
        new_from(made, tmp_path / "quicker")


def test_a_copy_that_would_be_no_plan_leaves_nothing(source: Store, tmp_path: Path, monkeypatch: Any) -> None:
    from runner.errors import PlanError

    monkeypatch.setattr(new, "shorten", lambda *_, **__: changed("level", "levle"))
    with pytest.raises(PlanError, match=r"bad name/plan\.toml:14"):
        new_from(source, tmp_path / "bad name")
    assert not (tmp_path / "bad name").exists()
    shutil.rmtree(source.folder / "trees")
