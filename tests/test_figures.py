"""Figures: that they hold what they are given, say it in words, and stay the same for the same input."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis import drawing, figures
from analysis.drawing import Picture
from analysis.figures_blocks import short_names
from analysis.model import Estimate
from tests import made_up
from tests.made_up import ALL_CASES, ARMS, CASES, CONTRASTS


def forest(found: list[Estimate] | None = None, **changes: object) -> Picture:
    options = {"metric": "ns/op", "primary": "t", "arms": ARMS} | changes
    return figures.forest(made_up.estimates() if found is None else found, CONTRASTS, CASES, **options)  # type: ignore[arg-type]


def every_picture() -> dict[str, Picture]:
    found = made_up.estimates()
    rows = [(c, b, p, a) for c, blocks in made_up.orders().items() for b, o in blocks.items() for p, a in enumerate(o)]
    return {
        "forest": forest(),
        "blocks": figures.blocks_in_order(
            found,
            "final/legacy",
            metric="ns/op",
            cases=ALL_CASES,
            arms=ARMS,
            marked={"LoadRecord": [2]},
            orders=made_up.orders(),
        ),
        "order": figures.order_map(rows, ARMS, "order seed 1"),
        "strip": figures.strip({"B": [e for e in found if e.metric == "ns/op"]}, arms=ARMS, primary="t"),
        "time": figures.where_time_goes({"processes": 400.0, "waiting": 3.0, "runner": 9.0}),
    }


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


@pytest.fixture(scope="module")
def pictures() -> dict[str, Picture]:
    return every_picture()


def test_forest_says_its_sides_and_numbers(pictures: dict[str, Picture]) -> None:
    for rendition in (pictures["forest"].wide, pictures["forest"].narrow):
        text = words(rendition)
        for needed in ("\u25c2 final faster", "final slower \u25b8", "0.970 [0.950, 0.990]", "no estimate", "write",
                       "final / before", "t interval (primary)", "percentile interval", "single blocks"):  # fmt: skip
            assert needed in text


def test_forest_has_one_panel_per_contrast_on_one_axis(pictures: dict[str, Picture]) -> None:
    axes = pictures["forest"].wide.axes
    assert len(axes) == len(CONTRASTS)
    assert len({a.get_xlim() for a in axes}) == 1
    assert all(a.get_xscale() == "log" for a in axes)


def bars(axes: Axes, width: float) -> list[tuple[float, float, float]]:
    """The bars of a line width: left end, right end and height."""
    points = [np.asarray(line.get_xydata()) for line in axes.lines if line.get_linewidth() == width]
    return [(p[0, 0], p[1, 0], p[0, 1]) for p in points if len(p) == 2]


@pytest.mark.parametrize(("primary", "thick", "thin"), [("t", 0.04, 0.028), ("percentile", 0.028, 0.04)])
def test_the_thick_bar_is_the_primary_interval(primary: str, thick: float, thin: float) -> None:
    axes = forest(primary=primary).wide.axes[0]
    left, right, height = bars(axes, 5.0)[0]
    assert right - left == pytest.approx(thick)
    left, right, other_height = bars(axes, 1.2)[0]
    assert right - left == pytest.approx(thin)
    assert height != other_height


def test_side_words() -> None:
    assert figures.side_words("ns/op", "final") == ("final faster", "final slower")
    assert figures.side_words("p99-ns", "final") == ("final faster", "final slower")
    assert figures.side_words("allocs/op", "final") == ("final lower", "final higher")
    assert figures.side_words("cpu-ns/tx", "final") == ("final lower", "final higher")


def test_alt_text_has_every_number(pictures: dict[str, Picture]) -> None:
    alt = pictures["forest"].alt
    assert "final/before: SaveRecord 0.970 [0.950, 0.990]; LoadRecord no estimate; " in alt
    assert "block 1 1.380" in pictures["blocks"].alt
    assert "SaveRecord: block 1 legacy before final" in pictures["order"].alt
    assert "waiting 3.0 s (0.7%)" in pictures["time"].alt


def test_pictures_fit_a_phone_and_choose_by_width(pictures: dict[str, Picture]) -> None:
    for name, picture in pictures.items():
        assert picture.narrow.get_figwidth() * 96 <= 328, name
        smallest = min(float(text.get_fontsize()) for text in picture.narrow.findobj(Text) if text.get_text())
        assert smallest * 96 / 72 >= 10, name  # CSS pixels on a phone of 360
        markup = picture._repr_html_()
        assert f'media="(max-width: {drawing.PHONE}px)"' in markup
        assert 'alt="' in markup
        assert repr(picture) == picture.alt


def test_nothing_is_drawn_outside_the_sheet(pictures: dict[str, Picture]) -> None:
    for name, picture in pictures.items():
        for figure in (picture.wide, picture.narrow):
            figure.draw_without_rendering()
            for text in figure.findobj(Text):
                if text.get_text().strip() and text.get_visible():
                    box = text.get_window_extent()
                    beyond = max(-box.x0, box.x1 - figure.bbox.x1, -box.y0, box.y1 - figure.bbox.y1)
                    assert beyond <= 1, f"{name}: {text.get_text()!r} at {box}"


def test_same_input_same_bytes(pictures: dict[str, Picture]) -> None:
    again = every_picture()
    for name, picture in pictures.items():
        assert drawing.svg(picture.wide) == drawing.svg(again[name].wide), name


def test_svg_needs_nothing_from_elsewhere(pictures: dict[str, Picture]) -> None:
    for picture in pictures.values():
        text = drawing.svg(picture.wide).decode()
        assert not re.search(r"<image|<text|font-family|@import", text)
        assert set(re.findall(r'https?://[^"]+', text)) <= {
            "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink", "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd",
            "http://purl.org/dc/elements/1.1/", "http://creativecommons.org/ns#", "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
            "http://purl.org/dc/dcmitype/StillImage",
        }  # fmt: skip


def test_hostile_labels_are_text() -> None:
    bad = made_up.HOSTILE
    found = [replace(made_up.estimate(bad, "final/before"))]
    shown = figures.forest(found, {"final/before": bad}, {bad: [bad]}, metric="ns/op", primary="t", arms=ARMS)
    shown.wide.draw_without_rendering()
    assert b"<script" not in drawing.svg(shown.wide)
    assert "<script" not in shown._repr_html_()
    figures.where_time_goes({bad: 1.0}).narrow.draw_without_rendering()
    figures.strip({bad: found}, arms=ARMS, primary="t").wide.draw_without_rendering()
    figures.blocks_in_order(found, "final/before", metric="ns/op", cases=[bad], arms=ARMS).wide.draw_without_rendering()


def test_arms_keep_their_look_and_differ_without_colour() -> None:
    looks = [drawing.arm_style(arm, ARMS) for arm in ARMS]
    assert looks == [drawing.arm_style(arm, [*ARMS, "pr2"]) for arm in ARMS]
    assert len({look.marker for look in looks}) == len({look.hatch for look in looks}) == len(ARMS)


def test_an_unknown_arm_is_an_error() -> None:
    with pytest.raises(ValueError, match="arm 'new' is not among the arms"):
        drawing.arm_style("new", ARMS)


def test_order_map_refuses_two_arms_in_one_place() -> None:
    with pytest.raises(ValueError, match="LoadRecord, block 1, position 0: both 'final' and 'before'"):
        figures.order_map([("LoadRecord", 1, 0, "final"), ("LoadRecord", 1, 0, "before")], ARMS)


def test_marked_and_missing_blocks_are_visible() -> None:
    gone = made_up.failed("LoadRecord", "final/legacy")
    shown = figures.blocks_in_order(
        [gone], "final/legacy", metric="ns/op", cases=["LoadRecord"], arms=ARMS, marked={"LoadRecord": [1]}
    )
    assert "!" in words(shown.wide)
    assert [line.get_marker() for line in shown.wide.axes[0].lines].count("x") == 2


def test_an_outlier_is_an_arrow_at_the_edge() -> None:
    wild = replace(made_up.estimate("SaveRecord", "final/before"), ratios=(0.97, 0.97, 0.97, 0.97, 0.97, 9.0))
    axes = forest([wild]).wide.axes[0]
    assert axes.get_xlim()[1] < 2
    assert any(line.get_marker() == 5 for line in axes.lines)


def test_empty_input_draws_something() -> None:
    assert "no estimate" in words(forest([]).wide)
    figures.where_time_goes({}).wide.draw_without_rendering()
    figures.strip({}, arms=ARMS, primary="t").wide.draw_without_rendering()
    figures.order_map([], ARMS).wide.draw_without_rendering()
    figures.blocks_in_order([], "final/before", metric="ns/op", cases=[], arms=ARMS).wide.draw_without_rendering()


@given(st.floats(1e-2, 1e2), st.floats(1.001, 1e4), st.integers(3, 8))
def test_ticks_are_inside_and_few(low: float, factor: float, most: int) -> None:
    high = low * factor
    ticks = drawing.ratio_ticks(low, high, most)
    assert len(ticks) <= most
    assert all(low * (1 - 1e-9) <= tick <= high * (1 + 1e-9) for tick in ticks)
    assert all(len(f"{tick:g}") <= 8 for tick in ticks)


@given(st.floats(0.3, 3), st.floats(1.02, 12))
def test_usual_axes_have_ticks(low: float, factor: float) -> None:
    assert len(drawing.ratio_ticks(low, low * factor, 5)) >= 2


def test_an_axis_that_goes_far_above_1_has_a_tick_there() -> None:
    assert drawing.ratio_ticks(0.36, 1.94, 6) == [0.5, 0.7, 1.0, 1.5]


def test_ticks_hold_1_where_it_is() -> None:
    for low, high in ((0.97, 1.02), (0.6, 1.5), (0.2, 1.1), (0.9, 9.0)):
        assert 1.0 in drawing.ratio_ticks(low, high, 7)


@given(st.lists(st.floats(0.01, 100), max_size=6), st.lists(st.floats(0.01, 100), max_size=6))
def test_limits_hold_1_and_every_value(values: list[float], blocks: list[float]) -> None:
    low, high = drawing.ratio_limits(values, blocks)
    assert 0 < low < 1 < high
    assert all(low <= value <= high for value in values if 1 / 30 <= value <= 30)


def test_common_spans_are_equal() -> None:
    spans = drawing.common_spans([[0.9, 1.0], [1.5, 1.51], []])
    lengths = [math.log(high / low) for low, high in spans]
    assert lengths == pytest.approx([lengths[0]] * 3)


def test_save_writes_three_files(tmp_path: Path, pictures: dict[str, Picture]) -> None:
    paths = pictures["strip"].save(tmp_path, "strip")
    assert [path.name for path in paths] == ["strip.svg", "strip-narrow.svg", "strip.png"]
    assert all(path.stat().st_size > 1000 for path in paths)


def test_short_names_of_arms_are_short_and_different() -> None:
    assert short_names(["legacy", "before", "final"]) == {"legacy": "l", "before": "b", "final": "f"}
    four = ["before-ordinary", "before-remote", "final-ordinary", "final-remote"]
    assert list(short_names(four).values()) == ["bo", "br", "fo", "fr"]
    assert list(short_names(["final-1", "final-2"]).values()) == ["f1", "f2"]
    assert list(short_names(["one", "only", "on"]).values()) == ["A", "B", "C"]
    assert short_names([]) == {}


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_the_orders_of_four_arms_in_eight_blocks_stand_apart(width: str) -> None:
    four = ["before-ordinary", "before-remote", "final-ordinary", "final-remote"]
    ratios = (0.5, 0.6, 0.7, 0.8, 0.9, 0.8, 0.7, 0.6)
    found = [
        replace(
            made_up.estimates()[0],
            contrast=f"{four[3]}/{four[2]}",
            ratios=ratios,
            blocks=tuple(range(1, 9)),
            missing=(),
        )
    ]
    orders = {found[0].case: dict.fromkeys(range(1, 9), four)}
    picture = figures.blocks_in_order(
        found, found[0].contrast, metric=found[0].metric, cases=[found[0].case], arms=four, orders=orders
    )
    figure = getattr(picture, width)
    figure.canvas.draw()
    axes = figure.axes[-1]
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert len(boxes) == 8
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))
    inside = figure.bbox
    assert all(text.get_window_extent().x1 <= inside.x1 for text in figure.texts)
