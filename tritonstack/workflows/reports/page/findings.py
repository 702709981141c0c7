"""What needs an action, and the state of environments and endpoints in few words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tritonstack.facts.advisories.published import Advisory
from tritonstack.facts.releases import RELEASES
from tritonstack.workflows.environments.status import EndpointStatus, EnvironmentStatus
from tritonstack.workflows.reports.page.texts import count, moment
from tritonstack.workflows.reports.report_data import ReportData, ReportedEnvironment


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
    """Yield rank and text of each finding."""
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
        yield (
            2,
            f"{count(len(environment.gates.failed), 'gate')} failed from {environment.gates.source}",
        )


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
