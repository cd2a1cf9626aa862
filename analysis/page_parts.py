"""What the sections of a page are put together from: paragraphs, lists, headings, folded parts. Everything is escaped."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.drawing import Picture
from analysis.escaping import escaped
from analysis.tables import Markup, slug


class Section(Markup):
    """Several parts, one below the other. As text each part says what it says by itself, figures too."""

    parts: tuple[Markup | Picture, ...] = ()

    def __repr__(self) -> str:
        return "\n".join(filter(None, map(repr, self.parts)))


def section(*parts: Markup | Picture) -> Section:
    """Parts as one section, in order; empty ones leave no trace."""
    joined = Section("".join(part._repr_html_() for part in parts))
    joined.parts = parts
    return joined


def heading(text: str) -> Markup:
    """A heading inside a section, with an address of its own. (The page's own sections are Markdown cells.)"""
    return Markup(f'<h3 id="{slug(text)}">{escaped(text)}</h3>\n')


def paragraphs(texts: Iterable[str]) -> Markup:
    """Texts as paragraphs, escaped."""
    return Markup("".join(f"<p>{escaped(text)}</p>\n" for text in texts))


def bullets(texts: Iterable[str], nothing: str = "") -> Markup:
    """Texts as a list, escaped unless they are markup; one sentence, or nothing at all, where there are none."""
    items = [f"<li>{text if isinstance(text, Markup) else escaped(text)}</li>\n" for text in texts]
    return Markup(f"<ul>{''.join(items)}</ul>\n") if items else paragraphs([nothing] if nothing else [])


def folded(summary: str, *parts: Markup | Picture) -> Section:
    """Parts behind a line that opens them."""
    inside = section(*parts)
    whole = Section(f'<details class="bb-fold"><summary>{escaped(summary)}</summary>{inside}</details>\n')
    whole.parts = (Markup(f"<p>{escaped(summary)}</p>\n"), *parts)
    return whole


def link(address: str, text: str, kind: str = "") -> Markup:
    """A link inside the site."""
    style = f' class="{escaped(kind)}"' if kind else ""
    return Markup(f'<a href="{escaped(address)}"{style}>{escaped(text)}</a>')
