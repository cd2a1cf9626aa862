"""What a plan comes to, as text; and the spread between blocks that it reckons with."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import pytest

from runner import pilot
from runner.errors import DataError, WrongUse
from runner.planfile import parse
from runner.schedule import asked, describe
from tests.small import changed, golden, plan


def test_the_schedule_of_the_small_plan() -> None:
    golden("small_schedule.txt", describe(plan()))


def test_seven_blocks_have_an_effect_and_a_bias() -> None:
    text = describe(parse(changed("blocks = 6", "blocks = 7")))
    assert "detectable effect: a log ratio of 1.2726 block standard deviations" in text
    assert "linear 0.0053" in text  # one place in 7 blocks, of 27 between first and last: no order has less


def test_the_effect_that_a_given_spread_comes_to() -> None:
    text = describe(plan(), asked(0.03, None, 1.02))
    factor = math.exp(1.4345 * 0.03)
    assert (
        f"block sd 0.0300 (given): 6 blocks find a ratio of {1 / factor:.4f} or {factor:.4f}; 1.02 needs 21 blocks"
        in text
    )
    assert text.count("1.02 needs 21 blocks") == sum(len(phase.cases) for phase in plan().phases.values())
    assert "1.0001 needs more than 1000 blocks" in describe(plan(), asked(0.03, None, 1.0001))


ROWS = [
    {"case": "Save", "metric": "ns/op", "contrast": "on/off", "point": 1.010716239,
     "leave_one_out": [1.008671949, 1.015527437, 1.006122785, 1.011260364, 1.009464153, 1.013278864]},
    {"case": "Save", "metric": "ns/op", "contrast": "off/base", "point": 1.0, "leave_one_out": [1.0, 1.0]},
    {"case": "Scan/serial", "metric": "ns/op", "contrast": "on/off", "point": None, "leave_one_out": [None, 1.1]},
    {"case": "Get", "metric": "ns/op", "contrast": "new/old", "point": 1.0, "leave_one_out": [1.0, 1.0]},
]  # fmt: skip


def exported(folder: Path, rows: object) -> Path:
    path = folder / "pilot.json"
    path.write_text(json.dumps({"estimates": rows}))
    return path


def test_a_pilots_spread_is_that_of_its_blocks(tmp_path: Path) -> None:
    """The first vector of the statistics: its blocks follow from the point and the points without each."""
    ratios = (1.021, 0.987, 1.034, 1.008, 1.017, 0.998)
    found = pilot.block_logs(ROWS[0])
    assert [math.exp(log) for log in found] == pytest.approx(ratios, rel=1e-8)
    spreads = pilot.read(exported(tmp_path, ROWS))
    spread = spreads.of("Save", "ns/op")
    assert spread is not None and spread.source == "pilot, 6 blocks"  # the larger of the case's two contrasts
    assert spread.sd == pytest.approx(statistics.stdev(map(math.log, ratios)), rel=1e-6)
    assert spread.planned == pytest.approx(1.46 * spread.sd, rel=0.003)
    assert (spreads.of("Scan/serial", "ns/op"), spreads.of("Save", "B/op")) == (None, None)
    text = describe(plan(), asked(None, exported(tmp_path, ROWS), None))
    assert "its 80% upper bound: 6 blocks find a ratio of" in text
    assert "no spread is known" in text
    assert "block sd 0 (pilot, 2 blocks): every difference would be found" in text


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "not the export"), ("[]", "not the export"), ('{"estimates": [{}]}', "not the export"),
        ('{"estimates": [{"case": 1, "metric": "m"}]}', "an estimate without case and metric"),
        ('{"estimates": []}', "no estimate with at least two blocks"),
        *(
            (json.dumps({"estimates": [{"case": "C", "metric": "m", "point": one, "leave_one_out": without}]}), "points above 0")
            for one, without in ((-1.0, [1.0, 1.0]), (1.0, [1.0, 0]), ("1", [1.0, 1.0]), (1.0, [1.0, True]), (math.nan, [1.0]))
        ),
    ],
)  # fmt: skip
def test_a_file_that_is_no_pilot(text: str, word: str, tmp_path: Path) -> None:
    path = tmp_path / "pilot.json"
    path.write_text(text)
    with pytest.raises(DataError, match=word) as raised:
        asked(None, path, None)
    assert raised.value.where == str(path)
    with pytest.raises(DataError, match="no such file"):
        asked(None, tmp_path / "none.json", None)


@pytest.mark.parametrize(
    ("sd", "file", "ratio", "word"),
    [
        (0.03, "x", None, "both given"), (None, None, 1.02, "spread between blocks is not known"),
        (0.03, None, 1.0, "not a ratio"), (0.03, None, -1.0, "not a ratio"), (0.03, None, math.inf, "not a ratio"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(sd: float | None, file: str | None, ratio: float | None, word: str) -> None:
    with pytest.raises(WrongUse, match=word):
        asked(sd, Path(file) if file else None, ratio)
