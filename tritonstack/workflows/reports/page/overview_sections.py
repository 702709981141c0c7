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
    found: dict[tuple[int, str], list[str]] = {}
    for one in data.environments:
        for rank, name, text in _findings(one):
            found.setdefault((rank, text), []).append(name)
    if not found:
        return tag("p", chip("OK", "good"), " Nothing that this report covers needs attention.")
    kinds = ("bad", "warn", "info")
    labels = ("urgent", "check", "note")
    items = (
        tag("li", chip(labels[rank], kinds[rank]), tag("strong", ", ".join(names)), tag("span", text))
        for (rank, text), names in sorted(found.items(), key=lambda item: item[0][0])
    )
    return tag("ul", *items, class_="findings")


def _findings(one: ReportedEnvironment) -> Iterator[tuple[int, str, str]]:
    """Yield rank, environment, and text of each finding."""
    if one.invalid:
        yield 0, one.name, f"invalid files: {one.invalid.splitlines()[0]}"
        return
    if one.unread:
        yield 1, one.name, f"not read: {one.unread}"
    for endpoint in one.status.endpoints if one.status else ():
        yield from ((rank, one.name, f"{endpoint.name}: {text}") for rank, text in _issues(endpoint))
        # Files can differ from the deployed commit without any effect, such as those of a promoted model.
        if endpoint.lacks_only_commit or not (one.changes and one.changes.changes_nothing):
            yield from ((2, one.name, f"{endpoint.name}: to deploy: {text}") for text in endpoint.to_deploy)
    yield from ((1, one.name, text) for text in _model_issues(one))
    if one.changes is not None and one.changes.rejected:
        yield 0, one.name, "a deploy would be rejected"
    critical = [advisory for advisory in one.advisories if advisory.is_critical]
    if critical:
        known = f"{count(len(critical), 'critical vulnerability', 'critical vulnerabilities')}"
        rank = 1 if fix_available(critical) else 2
        yield rank, one.name, f"Triton {one.release} has {known}; {critical_fix(critical)}"
    if one.gates and one.gates.failed and one.gates.pending:
        yield 2, one.name, f"{count(len(one.gates.failed), 'gate')} failed from {one.gates.source}"


def fix_available(advisories: list[Advisory]) -> bool:
    """Return whether SageMaker offers a release that fixes all of these."""
    return max(one.fixed_in for one in advisories) <= max(RELEASES)


def critical_fix(advisories: list[Advisory]) -> str:
    """Name the release that fixes all of these, and whether it can be used."""
    release = max(one.fixed_in for one in advisories)
    return f"fixed in {release}" + (
        "" if fix_available(advisories) else ", which SageMaker does not offer yet"
    )


def _model_issues(one: ReportedEnvironment) -> Iterator[str]:
    for model, items in one.models.items():
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
            join((tag("span", one.name, class_="name"), *map(small, _location(one)))),
            _state(one),
            _release(one),
            one.owner or small("no tag ", code("owner")),
            _promotion(one.gates),
            _cost(one),
        )
        for one in data.environments
    ]
    return table("Environments", head, rows, numbers=1)


def _location(one: ReportedEnvironment) -> list[str]:
    return [text for text in (one.account, one.region, "protected" if one.protected else "") if text]


def _state(one: ReportedEnvironment) -> Child:
    if one.invalid:
        return join((chip("invalid files", "bad"), small(one.invalid)))
    if one.status is None:
        link = small("see ", tag("a", "missing data", href="#missing"))
        return join((chip("not read", "warn"), small(with_code(one.unread)), link))
    return join((_health(one.status), _deployed(one.status), *map(_endpoint, one.status.endpoints)))


def _health(status: EnvironmentStatus) -> Markup:
    live = [one for one in status.endpoints if one.status == "InService"]
    total = len(status.endpoints)
    if any(one.firing_alarms or one.drift for one in status.endpoints):
        return chip("needs attention", "bad")
    kind = "good" if total and len(live) == total else "warn"
    return chip(f"{len(live)} of {count(total, 'endpoint')} in service", kind if live else "")


def _deployed(status: EnvironmentStatus) -> Markup:
    last = status.deployed
    if last is None:
        return small("never deployed (no record)")
    return small("deployed ", commit(last.commit), f" by {last.by}, {moment(last.at)}")


def _endpoint(one: EndpointStatus) -> Markup:
    machines = ", ".join(f"{part.variant} {part.now} ({part.least}–{part.most})" for part in one.machines)
    traffic = f"{one.traffic.requests:,} requests in 15 min" if one.machines else ""
    verdict = f"{one.verdict.kind} {moment(one.verdict.at)}" if one.verdict else ""
    facts = " · ".join(filter(None, (one.status, machines, traffic, verdict)))
    return small(tag("strong", one.name), f" {facts}")


def _release(one: ReportedEnvironment) -> Child:
    if not one.release:
        return None
    if not one.advisories:
        return join((one.release, small(f"no known vulnerability as of {AS_OF}")))
    critical = [advisory for advisory in one.advisories if advisory.is_critical]
    text = count(len(one.advisories), "CVE") + (f", {len(critical)} critical" if critical else "")
    shown = one.advisories[:_SHOWN_ADVISORIES]
    items = [f"{item.cve}: CVSS {item.score:g}, fixed in {item.fixed_in}" for item in shown]
    rest = len(one.advisories) - len(shown)
    items += [f"and {rest} with lower scores"] if rest else []
    # Nobody can act on a vulnerability before SageMaker offers the fix.
    badge = chip(text, "bad" if critical and fix_available(critical) else "warn")
    source = small(f"NVIDIA's advisories as of {AS_OF}")
    return join((tag("div", one.release), details(badge, bullets(items), source)))


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


def _cost(one: ReportedEnvironment) -> Child:
    if not one.costs:
        return small("not billed") if one.account else None
    if any(cost.least is None for cost in one.costs):
        return tag("a", "prices missing", href="#costs")
    least, most = (sum(getattr(cost, name) or 0 for cost in one.costs) for name in ("least", "most"))
    return number(least) if least == most else f"{number(least)}–{number(most)}"


def matrix(data: ReportData) -> Markup:
    """Return models by environments, with digests and differences."""
    if not data.models:
        return absent("The project has no model.", "`tritonstack new model` adds one.")
    known = [one for one in data.environments if not one.invalid]
    rows = [
        (
            join((tag("span", model.name, class_="name"), small(model.description))),
            *(_cell(one, model.name) for one in known),
        )
        for model in data.models
    ]
    return table("Models by environment", ("Model", *(one.name for one in known)), rows)


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
    rows = [(one.subject, with_code(one.reason), with_code(one.remedy) or "–") for one in data.missing]
    return table("Missing data", ("Data", "Reason", "Remedy"), rows)
