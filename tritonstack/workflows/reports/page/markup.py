"""Build HTML from parts: texts are escaped, and only `Markup` is inserted as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_EMPTY = frozenset({"meta"})


class Markup(str):
    """HTML that is safe to insert."""

    __slots__ = ()


Child = str | None
"""Text, which is escaped; Markup, which is not; or None, which is left out."""


def tag(name: str, /, *children: Child, **attributes: str | int | None) -> Markup:
    """Return an element. Names of attributes lose a last underscore, and get hyphens; None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Markup:
    """Return children after each other."""
    return Markup(
        "".join(child if isinstance(child, Markup) else escape(child) for child in children if child)
    )


def bullets(items: Iterable[Child], **attributes: str | int | None) -> Markup:
    """Return a list, one item per line."""
    return tag("ul", *(tag("li", item) for item in items), **attributes)


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Child]], *, numbers: int = 0) -> Markup:
    """Return a table in a region that scrolls; the first column names its row.

    The last `numbers` columns align right. The caption is for screen readers: a heading above shows it.
    """
    first_number = len(head) - numbers

    def cell(position: int, content: Child) -> Markup:
        if position == 0:
            return tag("th", content, scope="row")
        return tag("td", content, class_="number" if position >= first_number else None)

    titles = (
        tag("th", title, scope="col", class_="number" if position >= first_number else None)
        for position, title in enumerate(head)
    )
    body = (tag("tr", *(cell(number, item) for number, item in enumerate(row))) for row in rows)
    content = tag(
        "table",
        tag("caption", caption, class_="hidden"),
        tag("thead", tag("tr", *titles)),
        tag("tbody", *body),
        class_="wide" if len(head) > 5 else None,
    )
    return scrolling(content, caption)


def scrolling(content: Markup, label: str) -> Markup:
    """Return a region that scrolls sideways, also with the keyboard."""
    return tag("div", content, class_="scroll", role="region", aria_label=label, tabindex=0)


def chip(text: str, kind: str = "") -> Markup:
    """Return a short state; the text says what the color shows."""
    return tag("span", text, class_=f"chip {kind}".strip())


def code(text: str) -> Markup:
    """Return an identifier."""
    return tag("code", text)


def small(*children: Child) -> Markup:
    """Return a secondary line."""
    return tag("div", *children, class_="small")


def details(summary: Child, *children: Child) -> Markup:
    """Return content that opens on request."""
    return tag("details", tag("summary", summary), *children)


def absent(what: str, remedy: str) -> Markup:
    """Return a sentence about data that is not there, and what produces it; `code` between backticks."""
    return tag("p", f"{what} ", with_code(remedy), class_="absent")


def with_code(text: str) -> Markup:
    """Return a text whose parts between backticks are code."""
    parts = text.split("`")
    return join(code(part) if number % 2 else part for number, part in enumerate(parts))
