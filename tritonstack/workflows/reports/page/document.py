"""The HTML document, rendered from `templates`: a page without scripts, in which every text is escaped."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from tritonstack.facts.advisories.table import AS_OF
from tritonstack.workflows.reports.page import figures, findings, texts
from tritonstack.workflows.reports.report_data import ReportData

SECTIONS = {
    "attention": "Needs attention",
    "environments": "Environments",
    "models": "Models by environment",
    "changes": "What a deploy would change",
    "artifacts": "Artifacts",
    "timeline": "Timeline",
    "rollouts": "Rollouts",
    "costs": "Cost per month",
    "missing": "Missing data",
}
"""Section -> title. Each has a template of its name."""
_SHOWN_ADVISORIES = 12
_SHOWN_ENTRIES = 15
_FILTERS = {
    function.__name__: function
    for function in (
        *(texts.commit, texts.count, texts.digest, texts.megabytes, texts.minutes, texts.moment),
        *(texts.number, texts.total, texts.with_code),
        *(findings.facts, findings.findings, findings.health, findings.vulnerabilities),
        *(figures.alarm_ids, figures.quiet_alarms),
    )
}
_CHARTS = {
    function.__name__: function
    for function in (
        *(figures.alarm_chart, figures.candidate_chart, figures.ensemble_graph, figures.latency_chart),
        *(figures.load_test_chart, figures.request_chart, figures.share_chart),
    )
}


@dataclass(frozen=True)
class Watch:
    """How the page of a report that is written again and again reloads itself."""

    interval_s: int
    error: str = ""
    """Why the latest read failed; the page then shows the data of the one before."""


class _JoinedLines(Extension):
    """Joins the lines of a template: breaks and indents are for its readers, and would show as spaces."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Return a template in one line."""
        return "".join(line.strip() for line in source.splitlines())


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        extensions=[_JoinedLines],
    )
    templates.filters |= {**_FILTERS, "sha256": _sha256}
    templates.globals |= {
        **_CHARTS,
        "as_of": AS_OF,
        "shown_advisories": _SHOWN_ADVISORIES,
        "shown_entries": _SHOWN_ENTRIES,
    }
    return templates


def render(data: ReportData, watch: Watch | None = None) -> str:
    """Return the report as one HTML document without scripts."""
    style = Markup((files(__package__) / "report.css").read_text(encoding="utf-8"))  # noqa: S704 - our own
    sections = {name: render_section(name, data) for name in SECTIONS}
    page = _templates().get_template("page.html")
    return page.render(data=data, watch=watch, titles=SECTIONS, sections=sections, style=style)


def render_section(name: str, data: ReportData) -> Markup:
    """Return the content of one section."""
    content = _templates().get_template(f"{name}.html").render(data=data)
    return Markup(content)  # noqa: S704 - the template has escaped it


def _sha256(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
