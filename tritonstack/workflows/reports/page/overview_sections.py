"""Sections on the whole project: findings, environments, models by environment, and missing data."""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.reference.advisories.published import Advisory
from tritonstack.reference.advisories.table import AS_OF
from tritonstack.reference.releases import RELEASES
from tritonstack.workflows.environments.status import EndpointStatus, EnvironmentStatus
from tritonstack.workflows.reports.page.markup import (
    Child,
    Markup,
    absent,
    bullets,
    chip,
    code,
    details,
    join,
    small,
    table,
    tag,
    with_code,
)
from tritonstack.workflows.reports.page.texts import commit, count, digest, moment, number
from tritonstack.workflows.reports.report_data import (
    LockedModel,
    PromotionGates,
    ReportData,
    ReportedEnvironment,
)

_SHOWN_ADVISORIES = 12


def attention(data: ReportData) -> Markup:
    """Return what needs an action, the most urgent first."""
    findings: dict[tuple[int, str], list[str]] = {}
    for environment in data.environments:
        for rank, name, text in _findings(environment):
            findings.setdefault((rank, text), []).append(name)
    if not findings:
        return tag("p", chip("OK", "good"), " Nothing that this report covers needs attention.")
    kinds = ("bad", "warn", "info")
    labels = ("urgent", "check", "note")
    items = (
        tag("li", chip(labels[rank], kinds[rank]), tag("strong", ", ".join(names)), tag("span", text))
        for (rank, text), names in sorted(findings.items(), key=lambda item: item[0][0])
    )
    return tag("ul", *items, class_="findings")


def _findings(environment: ReportedEnvironment) -> Iterator[tuple[int, str, str]]:
    """Yield rank, environment, and text of each finding."""
    if environment.invalid:
        yield 0, environment.name, f"invalid files: {environment.invalid.splitlines()[0]}"
        return
    if environment.unread:
        yield 1, environment.name, f"not read: {environment.unread}"
    for endpoint in environment.status.endpoints if environment.status else ():
        yield from ((rank, environment.name, f"{endpoint.name}: {text}") for rank, text in _issues(endpoint))
        # Files can differ from the deployed commit without any effect, such as those of a promoted model.
        if endpoint.lacks_only_commit or not (environment.changes and environment.changes.changes_nothing):
            yield from (
                (2, environment.name, f"{endpoint.name}: to deploy: {text}") for text in endpoint.to_deploy
            )
    yield from ((1, environment.name, text) for text in _model_issues(environment))
    if environment.changes is not None and environment.changes.rejected:
        yield 0, environment.name, "a deploy would be rejected"
    critical = [advisory for advisory in environment.advisories if advisory.is_critical]
    if critical:
        number = count(len(critical), "critical vulnerability", "critical vulnerabilities")
        issue = f"Triton {environment.release} has {number}; {critical_fix(critical)}"
        yield (1 if fix_available(critical) else 2), environment.name, issue
    if environment.gates and environment.gates.failed and environment.gates.pending:
        yield (
            2,
            environment.name,
            f"{count(len(environment.gates.failed), 'gate')} failed from {environment.gates.source}",
        )


def fix_available(advisories: list[Advisory]) -> bool:
    """Return whether SageMaker offers a release that fixes all of these."""
    return max(advisory.fixed_in for advisory in advisories) <= max(RELEASES)


def critical_fix(advisories: list[Advisory]) -> str:
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


def environments(data: ReportData) -> Markup:
    """Return one row per environment."""
    if not data.environments:
        return absent("The project has no environment.", "`tritonstack new environment` adds one.")
    head = ("Environment", "State", "Triton release", "Owner", "Promotion", "Cost per month")
    rows = [
        (
            join((tag("span", environment.name, class_="name"), *map(small, _location(environment)))),
            _state(environment),
            _release(environment),
            environment.owner or small("no tag ", code("owner")),
            _promotion(environment.gates),
            _cost(environment),
        )
        for environment in data.environments
    ]
    return table("Environments", head, rows, numbers=1)


def _location(environment: ReportedEnvironment) -> list[str]:
    return [
        text
        for text in (environment.account, environment.region, "protected" if environment.protected else "")
        if text
    ]


def _state(environment: ReportedEnvironment) -> Child:
    if environment.invalid:
        return join((chip("invalid files", "bad"), small(environment.invalid)))
    if environment.status is None:
        link = small("see ", tag("a", "missing data", href="#missing"))
        return join((chip("not read", "warn"), small(with_code(environment.unread)), link))
    return join(
        (
            _health(environment.status),
            _deployed(environment.status),
            *map(_endpoint, environment.status.endpoints),
        )
    )


def _health(status: EnvironmentStatus) -> Markup:
    live = [endpoint for endpoint in status.endpoints if endpoint.status == "InService"]
    total = len(status.endpoints)
    if any(endpoint.firing_alarms or endpoint.drift for endpoint in status.endpoints):
        return chip("needs attention", "bad")
    kind = "good" if total and len(live) == total else "warn"
    return chip(f"{len(live)} of {count(total, 'endpoint')} in service", kind if live else "")


def _deployed(status: EnvironmentStatus) -> Markup:
    last = status.deployed
    if last is None:
        return small("never deployed (no record)")
    return small("deployed ", commit(last.commit), f" by {last.by}, {moment(last.at)}")


def _endpoint(endpoint: EndpointStatus) -> Markup:
    machines = ", ".join(
        f"{part.variant} {part.now} ({part.least}–{part.most})" for part in endpoint.machines
    )
    traffic = f"{endpoint.traffic.requests:,} requests in 15 min" if endpoint.machines else ""
    verdict = f"{endpoint.verdict.kind} {moment(endpoint.verdict.at)}" if endpoint.verdict else ""
    facts = " · ".join(filter(None, (endpoint.status, machines, traffic, verdict)))
    return small(tag("strong", endpoint.name), f" {facts}")


def _release(environment: ReportedEnvironment) -> Child:
    if not environment.release:
        return None
    if not environment.advisories:
        return join((environment.release, small(f"no known vulnerability as of {AS_OF}")))
    critical = [advisory for advisory in environment.advisories if advisory.is_critical]
    text = count(len(environment.advisories), "CVE") + (f", {len(critical)} critical" if critical else "")
    shown = environment.advisories[:_SHOWN_ADVISORIES]
    items = [f"{item.cve}: CVSS {item.score:g}, fixed in {item.fixed_in}" for item in shown]
    rest = len(environment.advisories) - len(shown)
    items += [f"and {rest} with lower scores"] if rest else []
    # Nobody can act on a vulnerability before SageMaker offers the fix.
    badge = chip(text, "bad" if critical and fix_available(critical) else "warn")
    source = small(f"NVIDIA's advisories as of {AS_OF}")
    return join((tag("div", environment.release), details(badge, bullets(items), source)))


def _promotion(gates: PromotionGates | None) -> Child:
    if gates is None:
        return small("builds its own artifacts")
    required = small(f"from {gates.source}: {', '.join(gates.required) or 'no gate'}")
    if gates.results is None:
        return join((chip("gates not evaluated"), required))
    if not gates.pending:
        return join((chip("up to date", "good"), required))
    pending = small(f"to promote: {', '.join(gates.pending)}")
    failed = len(gates.failed)
    state = chip(f"{count(failed, 'gate')} failed", "warn") if failed else chip("gates passed", "good")
    rows = (
        (
            code(gate.gate),
            gate.subject,
            gate.required,
            gate.measured,
            "passed" if gate.passed else with_code(f"failed: {gate.reason}; {gate.remedy}"),
        )
        for gate in gates.results
    )
    results = table("promotion gates", ("gate", "artifact", "required", "measured", "result"), rows)
    return join((details(state, results), required, pending))


def _cost(environment: ReportedEnvironment) -> Child:
    if not environment.costs:
        return small("not billed") if environment.account else None
    if any(cost.least is None for cost in environment.costs):
        return tag("a", "prices missing", href="#costs")
    least, most = (sum(getattr(cost, name) or 0 for cost in environment.costs) for name in ("least", "most"))
    return number(least) if least == most else f"{number(least)}–{number(most)}"


def matrix(data: ReportData) -> Markup:
    """Return models by environments, with digests and differences."""
    if not data.models:
        return absent("The project has no model.", "`tritonstack new model` adds one.")
    readable = [environment for environment in data.environments if not environment.invalid]
    rows = [
        (
            join((tag("span", model.name, class_="name"), small(model.description))),
            *(_cell(environment, model.name) for environment in readable),
        )
        for model in data.models
    ]
    return table("Models by environment", ("Model", *(environment.name for environment in readable)), rows)


def _cell(environment: ReportedEnvironment, model: str) -> Child:
    items = environment.models.get(model, ())
    if not items:
        return Markup("–")
    return join(_locked(environment, item) for item in items)


def _locked(environment: ReportedEnvironment, item: LockedModel) -> Markup:
    if item.digest is None:
        return tag("div", chip("not built", "warn"), small(item.outdated), class_="cell")
    source = environment.gates.source if environment.gates else ""
    states = [*_states(item, source)]
    shown = [
        tag("div", digest(item.digest), tag("span", item.target, class_="small"), class_="digest"),
        *states,
    ]
    if not states:
        shown.append(chip("current", "good"))
    return tag("div", *shown, class_="cell")


def _states(item: LockedModel, source: str) -> Iterator[Child]:
    for endpoint, live in item.running.items():
        yield chip(f"{endpoint} runs another", "bad")
        yield small(digest(live) if live else "none")
    if item.instead_of:
        yield chip("rolled back", "warn")
        yield small("instead of ", digest(item.instead_of))
    if item.outdated:
        yield chip("files changed", "warn")
        yield small(item.outdated)
    if item.differences:
        yield chip(f"differs from {source}", "info")
        yield small("; ".join(item.differences))
    if item.unverified:
        yield chip("unverified", "warn")
    if item.override:
        yield chip("gate overridden", "warn")


def missing(data: ReportData) -> Markup:
    """Return what the report lacks, and what produces it."""
    if not data.missing:
        return tag("p", "The report has all of its data.")
    rows = [(gap.subject, with_code(gap.reason), with_code(gap.remedy) or "–") for gap in data.missing]
    return table("Missing data", ("Data", "Reason", "Remedy"), rows)
