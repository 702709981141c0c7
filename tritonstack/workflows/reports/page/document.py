"""The HTML document: head, navigation, and sections in order."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from tritonstack.workflows.reports.page import model_sections, overview_sections, running_sections
from tritonstack.workflows.reports.page.markup import Markup, join, tag
from tritonstack.workflows.reports.page.texts import commit, count, moment
from tritonstack.workflows.reports.report_data import ReportData

SECTIONS = {
    "attention": ("Needs attention", overview_sections.attention),
    "environments": ("Environments", overview_sections.environments),
    "models": ("Models by environment", overview_sections.matrix),
    "changes": ("What a deploy would change", running_sections.changes),
    "artifacts": ("Artifacts", model_sections.artifacts),
    "timeline": ("Timeline", running_sections.timeline),
    "rollouts": ("Rollouts", running_sections.rollouts),
    "costs": ("Cost per month", running_sections.costs),
    "missing": ("Missing data", overview_sections.missing),
}
"""Section id -> title, and the function that renders its content."""


_SKIP = tag("a", "Skip to the report", href="#report", class_="skip")


@dataclass(frozen=True)
class Watch:
    """How the page of a report that is written again and again reloads itself."""

    interval_s: int
    error: str = ""
    """Why the latest read failed; the page then shows the data of the one before."""


def render(data: ReportData, watch: Watch | None = None) -> str:
    """Return the report as one HTML document without scripts."""
    sections = (_section(name, title, section(data)) for name, (title, section) in SECTIONS.items())
    main = tag("main", *sections, id="report", tabindex=-1)
    state = _state(data, watch) if watch else ""
    body = join((_SKIP, _header(data), state, tag("div", _navigation(), main, class_="layout")))
    return _document(f"{data.project}: report", body, reload_s=watch.interval_s if watch else None)


def _state(data: ReportData, watch: Watch) -> Markup:
    """Return the line that says how old the data of a page is that reloads itself."""
    read = f"read at {data.at:%H:%M:%S} UTC, and again every {watch.interval_s} s while the command runs"
    text = f"Not up to date, {read}: {watch.error}" if watch.error else f"Live, {read}"
    return tag("p", text, id="state", role="status", class_="lost" if watch.error else "")


@cache
def _policy() -> str:
    style = _hash(_resource("report.css"))
    return f"default-src 'none'; style-src '{style}'; base-uri 'none'; form-action 'none'"


def _header(data: ReportData) -> Markup:
    facts = [
        f"{count(len(data.environments), 'environment')}, {count(len(data.models), 'model')}",
        join(("commit ", commit(data.commit))) if data.commit else "no git commit",
        f"{moment(data.at)} UTC",
        f"tritonstack {data.version}",
    ]
    items = (tag("li", fact) for fact in facts if fact)
    return tag("header", tag("h1", data.project), tag("ul", *items, class_="facts"), id="header")


def _navigation() -> Markup:
    links = (tag("li", tag("a", title, href=f"#{name}")) for name, (title, _) in SECTIONS.items())
    return tag("nav", tag("ul", *links), aria_label="Sections", id="nav")


def _section(name: str, title: str, content: Markup) -> Markup:
    return tag(
        "section", tag("h2", title, id=f"{name}-title"), content, id=name, aria_labelledby=f"{name}-title"
    )


def _document(title: str, body: Markup, *, reload_s: int | None) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy()),
        tag("meta", http_equiv="refresh", content=str(reload_s)) if reload_s else "",
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Markup(_resource("report.css"))),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', body), lang='en')}\n"


def _resource(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
