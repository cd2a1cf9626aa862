"""Every place where text enters a page, read from the source: each goes through the function for it, or is named here."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from matplotlib.figure import Figure

from analysis import drawing
from analysis.escaping import escaped, markdown, printable, raw

ANALYSIS = Path(__file__).resolve().parent.parent / "analysis"
PRINTED = {"claim_exports.py", "sweep_exports.py", "exports.py"}  # for a terminal or a file, in no page
TAG = re.compile(r"<[a-zA-Z/!]")
OF_MYST = re.compile(r"^#+ |`{3}|\{download\}|\n$")

# What makes HTML or text that is safe in it; each escapes what it is given, or gives numbers and words of its own.
ESCAPING = {"escaped", "markdown", "breakable", "slug", "_cell", "_class", "_text", "interval_text", "short_digest", "link",
            "_link", "_phase_link", "paragraphs", "bullets", "code", "plain", "key_values", "strip", "origins", "_digest",
            "html", "listed", "interval_table", "folded", "_table", "state"}  # fmt: skip
# Everything else that stands in HTML or MyST, by file: pieces that were made by the above, and names with a form of their own.
PIECES = {
    "calibration_page.py": {"TITLE", "blocks", "'s' * (len(names) > 1)"},
    "drawing.py": {"PHONE", "narrow", "wide"},  # data addresses in base64
    "escaping.py": {"fence", "markup"},
    "figures_blocks.py": {"n", "order[n]"},  # of a figure
    "labels_page.py": {"TITLE", "name"},  # the folder's name: rendering takes no other than a plan's form of name
    "overview.py": {"rule", "name", "seeds", "calibration", "labels", "items"},
    "page_parts.py": {"text if isinstance(text, Markup) else escaped(text)", "inside", "style", "items"},
    "page_trees.py": {"count", "found", "said", "binaries"},
    "published_design.py": {"order(plan, phase, folder)", "described.blocks", "described.order_seed", "command"},
    "published_overview.py": {"PUBLISHED", "items", "lead", "rule"},
    "published_page.py": {"PUBLISHED", "subject.name", "links", "name", "band", "table + notes.html()", "case + mark"},
    "rendering.py": {"phase", "text", "STAMP", "made_from", "name"},  # names of phases and files
    "seeds_page.py": {"TITLE", "first.store.folder.name", "first.identifier", "SEEDS[0]", "SEEDS[-1]"},
    "tables.py": {"tag", "extra", "content", "self.prefix", "letter", "cells", "top", "label", "header", "body", "after", "items",
                  "name", "name if place == 0 else ''", "STATUS_WORDS[name]"},
}  # fmt: skip


def places(path: Path) -> Iterator[tuple[int, str, ast.expr]]:
    """Line, source and node of everything that is put into HTML or MyST."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    of_markup = {
        id(node.args[0]): node.args[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Markup", "Section") and node.args
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            fixed = "".join(str(v.value) for v in node.values if isinstance(v, ast.Constant))
            if id(node) in of_markup or TAG.search(fixed) or OF_MYST.search(fixed):
                for value in node.values:
                    if isinstance(value, ast.FormattedValue):
                        yield node.lineno, ast.unparse(value.value), value.value
    for node in of_markup.values():
        if not isinstance(node, ast.JoinedStr | ast.Constant):
            yield node.lineno, ast.unparse(node), node


def is_safe(node: ast.expr, file: str) -> bool:
    """Whether an expression is put together from calls that escape, fixed texts and named pieces alone."""
    if isinstance(node, ast.Constant) or ast.unparse(node) in PIECES.get(file, ()):
        return True
    if isinstance(node, ast.JoinedStr):
        return all(is_safe(v.value, file) for v in node.values if isinstance(v, ast.FormattedValue))
    if isinstance(node, ast.BinOp):
        return is_safe(node.left, file) and is_safe(node.right, file)
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func).split(".")[-1]
        if name == "join":
            return all(_joined(part, file) for part in node.args)
        return name in ESCAPING or name == "_repr_html_"
    return False


def _joined(node: ast.expr, file: str) -> bool:
    if isinstance(node, ast.GeneratorExp):
        return is_safe(node.elt, file)
    if isinstance(node, ast.Tuple | ast.List):
        return all(isinstance(part, ast.Starred) or is_safe(part, file) for part in node.elts)
    return is_safe(node, file)


@pytest.mark.parametrize("path", sorted(ANALYSIS.glob("*.py")), ids=lambda path: path.name)
def test_every_place_where_text_enters_a_page_is_known(path: Path) -> None:
    if path.name not in PRINTED:
        assert [
            f"{path.name}:{line}: {text}" for line, text, node in places(path) if not is_safe(node, path.name)
        ] == []


def test_no_piece_is_listed_that_is_not_there() -> None:
    for name, pieces in PIECES.items():
        source = ast.unparse(ast.parse((ANALYSIS / name).read_text()))
        assert [piece for piece in pieces if piece not in source] == [], name


@pytest.mark.parametrize(
    "source",
    [
        'x = f"<p>{report.phase.title}</p>"',
        "x = Markup(report.phase.title)",
        'x = Markup(f"{case}")',
        'x = f"# {plan.campaign.title}\\n"',
        'x = f"{{download}}`{name}`"',
        'x = Markup("".join(names))',
        'x = Markup("<p>" + text)',
    ],
)
def test_a_place_that_nobody_escapes_is_found(source: str, tmp_path: Path) -> None:
    path = tmp_path / "made_up.py"
    path.write_text(source)
    assert [text for _, text, node in places(path) if not is_safe(node, path.name)]


# ---- the functions ------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_text_in_html(text: str) -> None:
    shown = escaped(text)
    assert not re.search(r"[<>\"']", shown)
    assert all(c.isprintable() or c in "\n\t\u202f\u2009\u00a0" for c in shown)
    assert not re.search(r"&(?!amp;|lt;|gt;|quot;|#x27;)", shown)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_is_text_in_a_paragraph_and_in_a_title(text: str) -> None:
    """By a CommonMark parser with HTML allowed, as MyST has it."""
    for before in ("", "# "):
        tokens = MarkdownIt("commonmark").parse(before + markdown(text))
        inline = [token for token in tokens if token.type == "inline"]
        children = [child for token in inline for child in token.children or ()]
        assert {child.type for child in children} <= {"text", "text_special"}
        assert "".join(child.content for child in children) == printable(" ".join(text.split())).strip()


@given(st.lists(st.sampled_from(["`", "\n", "```{include} x", "<b>", "a", ":", " ", "~~~"]), max_size=30))
def test_nothing_ends_a_directive_but_its_own_end(parts: list[str]) -> None:
    markup = "<p>" + "".join(parts) + "</p>"
    fences = [token for token in MarkdownIt("commonmark").parse(raw(markup)) if token.type == "fence"]
    assert [(fence.info, fence.content) for fence in fences] == [("{raw} html", markup + "\n")]
    assert len(MarkdownIt("commonmark").parse(raw(markup))) == 1


def test_only_html_is_put_into_a_directive_for_html() -> None:
    assert raw(" \n") == ""
    for text in (":file: /etc/passwd", "---\nfile: x\n---\n", "text"):
        with pytest.raises(ValueError, match="not HTML"):
            raw(text)


def test_what_cannot_be_seen_is_replaced_in_figures_and_alt_texts() -> None:
    bad = "a\x00\x1b[31m\u202eb\ufffe"

    def draw(narrow: bool) -> Figure:
        sheet = drawing.Sheet(narrow, 1)
        sheet.text(0.1, 0.1, bad)
        axes = sheet.axes(0.5, 0.2, 2, 0.5)
        axes.set_xlabel(bad)
        axes.plot([1, 2], [1, 2], label=bad)
        sheet.figure.legend()
        return sheet.figure

    shown = drawing.picture(draw, bad)
    from xml.etree import ElementTree

    image = drawing.svg(shown.wide)
    ElementTree.parse(io.BytesIO(image))
    text = image.decode()
    assert not any(c in text for c in "\x00\x1b\u202e\ufffe")
    assert not any(c in shown._repr_html_() for c in "\x00\x1b\u202e\ufffe")
    assert drawing.png(shown.wide)
