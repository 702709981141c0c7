"""The HTML document, rendered from `templates`: a page without scripts, in which every text is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from tritonstack.facts.advisories.published import Advisory
from tritonstack.facts.advisories.table import AS_OF
from tritonstack.facts.releases import RELEASES
from tritonstack.operate.report.page import figures, texts
from tritonstack.operate.report.page.texts import count, moment
from tritonstack.operate.report.report_data import ReportData, ReportedEnvironment
from tritonstack.operate.status.status import EndpointStatus, EnvironmentStatus


@dataclass(frozen=True)
class AttentionItem:
    """Something that needs an action."""

    rank: int
    """0 is urgent, 1 worth a check, 2 a note."""
    environments: tuple[str, ...]
    text: str


def findings(data: ReportData) -> list[AttentionItem]:
    """Return what needs an action, the most urgent first."""
    names: dict[tuple[int, str], list[str]] = {}
    for environment in data.environments:
        for finding in _findings(environment):
            names.setdefault(finding, []).append(environment.name)
    ranked = [AttentionItem(rank, tuple(environments), text) for (rank, text), environments in names.items()]
    return sorted(ranked, key=lambda finding: finding.rank)


def _findings(environment: ReportedEnvironment) -> Iterator[tuple[int, str]]:
    if environment.invalid:
        yield 0, f"invalid files: {environment.invalid.splitlines()[0]}"
        return
    if environment.unread:
        yield 1, f"not read: {environment.unread}"
    for endpoint in environment.status.endpoints if environment.status else ():
        yield from ((rank, f"{endpoint.name}: {text}") for rank, text in _issues(endpoint))
        # Files can differ from the deployed commit without any effect, such as those of a promoted model.
        if endpoint.lacks_only_commit or not (environment.changes and environment.changes.changes_nothing):
            yield from ((2, f"{endpoint.name}: to deploy: {text}") for text in endpoint.to_deploy)
    yield from ((1, text) for text in _model_issues(environment))
    if environment.changes is not None and environment.changes.rejected:
        yield 0, "a deploy would be rejected"
    critical = [advisory for advisory in environment.advisories if advisory.is_critical]
    if critical:
        number = count(len(critical), "critical vulnerability", "critical vulnerabilities")
        issue = f"Triton {environment.release} has {number}; {critical_fix(critical)}"
        yield (1 if fix_available(critical) else 2), issue
    if environment.gates and environment.gates.failed and environment.gates.pending:
        yield (2, f"{count(len(environment.gates.failed), 'gate')} failed from {environment.gates.source}")


def fix_available(advisories: Sequence[Advisory]) -> bool:
    """Return whether SageMaker offers a release that fixes all of these."""
    return max(advisory.fixed_in for advisory in advisories) <= max(RELEASES)


def critical_fix(advisories: Sequence[Advisory]) -> str:
    """Name the release that fixes all of these, and whether it can be used."""
    release = max(advisory.fixed_in for advisory in advisories)
    return f"fixed in {release}" + (
        "" if fix_available(advisories) else ", which SageMaker does not offer yet"
    )


def _model_issues(environment: ReportedEnvironment) -> Iterator[str]:
    for model, items in environment.models.items():
        for item in items:
            if item.unverified:
                yield f"{model} is unverified: {item.unverified}"
            if item.override:
                yield f"{model} ({item.target}): {item.override}"
            if item.outdated:
                yield f"{model} ({item.target}): {item.outdated}"


def _issues(endpoint: EndpointStatus) -> Iterator[tuple[int, str]]:
    if endpoint.status not in ("InService", "not deployed"):
        yield (1 if endpoint.status in ("Updating", "Creating") else 0), endpoint.status
    yield from ((0, f"{name} is in ALARM") for name in endpoint.firing_alarms)
    if endpoint.traffic.server_errors:
        failed = count(endpoint.traffic.server_errors, "request")
        yield 0, f"{failed} failed in the last 15 minutes"
    if endpoint.verdict is not None and endpoint.verdict.kind == "refuted":
        yield 0, f"failed verification: {endpoint.verdict.note}"
    yield from ((0, f"not as deployed: {text}") for text in endpoint.drift)


def health(status: EnvironmentStatus) -> tuple[str, str]:
    """Return how many endpoints serve, with the kind of this state."""
    live = [endpoint for endpoint in status.endpoints if endpoint.status == "InService"]
    total = len(status.endpoints)
    if any(endpoint.firing_alarms or endpoint.drift for endpoint in status.endpoints):
        return "needs attention", "bad"
    kind = "good" if total and len(live) == total else "warn"
    return f"{len(live)} of {count(total, 'endpoint')} in service", kind if live else ""


def facts(endpoint: EndpointStatus) -> list[str]:
    """Return what is known of an endpoint."""
    machines = ", ".join(
        f"{part.variant} {part.now} ({part.least}–{part.most})" for part in endpoint.machines
    )
    traffic = f"{endpoint.traffic.requests:,} requests in 15 min" if endpoint.machines else ""
    verdict = f"{endpoint.verdict.kind} {moment(endpoint.verdict.at)}" if endpoint.verdict else ""
    return [fact for fact in (endpoint.status, machines, traffic, verdict) if fact]


def vulnerabilities(advisories: Sequence[Advisory]) -> tuple[str, str]:
    """Return a release's vulnerabilities, and how urgent they are: without a fix, a warning."""
    critical = [advisory for advisory in advisories if advisory.is_critical]
    text = count(advisories, "CVE") + (f", {len(critical)} critical" if critical else "")
    return text, "bad" if critical and fix_available(critical) else "warn"


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
        *(facts, findings, health, vulnerabilities),
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
