"""The benchmark against hyperfine: its arithmetic and its reading of what hyperfine prints."""

from __future__ import annotations

import pytest

from benchmarks import against_hyperfine as bench

PRINTED = """Benchmark 1: true
Summary
  true ran
    1.02 ± 0.01 times faster than true
"""


def test_budgets_of_both_tools_are_one_wall_time() -> None:
    asked = bench.budget(0.03, 4.0, 15.0)
    assert (asked.runs, asked.repeats) == (249, 21)
    assert 0 <= 15 - (4.0 + 16 * 22 * 0.03) < 16 * 0.03
    assert 0 <= 15 - 2 * 250 * 0.03 < 2 * 0.03
    with pytest.raises(ValueError, match=r"--budget-s: expected at least 5\.0"):
        bench.budget(0.03, 4.0, 4.9)


def test_what_hyperfine_prints() -> None:
    assert bench.printed_difference(PRINTED) == (1.02, 0.01)
    with pytest.raises(ValueError, match="times faster than"):
        bench.printed_difference("Benchmark 1: true")


def test_shares_of_repetitions_that_claim_a_difference() -> None:
    def one(*claims: bool) -> dict[str, dict[str, object]]:
        found = dict(zip(bench.RULES, claims, strict=True))
        return {
            "hyperfine": {"wall_s": 10.0, "claims": {name: found[name] for name in bench.RULES[:2]}},
            "product": {"wall_s": 12.0, "claims": {name: found[name] for name in bench.RULES[2:]}},
        }

    found = bench.summary([one(True, True, False, False), one(False, True, False, True)])
    assert found["claims"] == dict(zip(bench.RULES, (1, 2, 0, 1), strict=True))
    told = bench.lines(found)
    assert "ratio false-differences/hyperfine-welch 1.0000" in told
    assert "ratio false-differences/product-t 0.0000" in told
    assert "ratio wall/product-over-hyperfine 1.2000" in told
    assert bench.clopper_pearson(0, 40) == pytest.approx((0, 0.0881), abs=1e-4)


def test_an_interval_that_touches_1_does_not_exclude_it() -> None:
    assert [bench.excludes_1(found) for found in ((0.9, 1.1), (1.0, 1.1), (1.01, 1.1), (0.8, 0.99))] == [
        False, False, True, True
    ]  # fmt: skip


def test_without_hyperfine_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench.shutil, "which", lambda _: None)
    assert bench.main([]) == 1
    assert "hyperfine is missing: install the package hyperfine" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        bench.main(["--repetitions", "0"])
