"""Report on environments from their files: locks, differences, owners, gates, and costs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tritonstack.base.errors import TritonstackError
from tritonstack.facts.advisories.published import advisories_of
from tritonstack.files.endpoint.scaling import DAYS
from tritonstack.files.endpoint.variants import Variant
from tritonstack.files.environment.promotion import PromotionSpec
from tritonstack.files.environment.tags import OWNER
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.project.build_plans import NeededArtifact, changed_parts, needed_artifacts
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.locks import Figures, LockedArtifact, changed_bounds
from tritonstack.operate.report.report_data import (
    EndpointCost,
    LockedModel,
    PromotionGates,
    ReportedEnvironment,
)

HOURS_PER_MONTH = 730


def load_reported(files: ProjectFiles, name: str) -> Workspace | ReportedEnvironment:
    """Load an environment; return what a report shows instead if its files are invalid."""
    try:
        return files.workspace(name)
    except TritonstackError as error:
        return ReportedEnvironment(name, invalid=str(error))


def describe_environment(workspace: Workspace, source: Workspace | None) -> ReportedEnvironment:
    """Return what the files of an environment tell; `source` is where its artifacts come from."""
    spec = workspace.spec
    return ReportedEnvironment(
        name=spec.name,
        account=spec.account,
        region=spec.region,
        release=spec.triton_release,
        owner=spec.tags.get(OWNER, ""),
        protected=spec.is_protected,
        advisories=advisories_of(spec.triton_release),
        models=_models(workspace, source),
        gates=_gates(spec.promotion) if spec.promotion else None,
        costs=tuple(_costs(workspace)),
    )


def _models(workspace: Workspace, source: Workspace | None) -> Mapping[str, tuple[LockedModel, ...]]:
    models: dict[str, list[LockedModel]] = {}
    for needed in needed_artifacts(workspace):
        models.setdefault(needed.model, []).append(_model(workspace, source, needed))
    return {model: tuple(items) for model, items in models.items()}


def _model(workspace: Workspace, source: Workspace | None, needed: NeededArtifact) -> LockedModel:
    locked = needed.locked
    if locked is None:
        return LockedModel(needed.target, None, needed.reason)
    target = workspace.lock.record.find_target(needed.model, needed.targets) or needed.target
    origin = source.lock.record.find(needed.model, needed.targets) if source else None
    back = locked.rolled_back if needed.is_rolled_back else None
    return LockedModel(
        target,
        locked.digest,
        outdated=needed.reason,
        instead_of=back.instead_of if back else None,
        differences=tuple(_differences(locked, origin)) if origin else (),
        figures=locked.figures,
        unverified=locked.unverified,
        override=(locked.promoted and locked.promoted.note) or "",
    )


def _differences(here: LockedArtifact, source: LockedArtifact) -> Iterator[str]:
    if here.digest == source.digest:
        return
    yield from changed_parts(here.built_from or {}, source.built_from or {})
    yield from (f"accepted bounds, here → there: {line}" for line in changed_bounds(here, source))
    before, after = here.figures or Figures(), source.figures or Figures()
    for label, old, new, form in (
        ("cosine", before.min_cosine, after.min_cosine, "{:.6f}"),
        ("p99", before.p99_ms, after.p99_ms, "{:.1f} ms"),
    ):
        if old is not None and new is not None and form.format(old) != form.format(new):
            yield f"{label} {form.format(old)} here, {form.format(new)} there"


def _gates(spec: PromotionSpec) -> PromotionGates:
    required = [
        f"deployed for {spec.soaked_hours:g} h" if spec.soaked_hours else "",
        "verified" if spec.verified else "",
        f"cosine at least {spec.min_cosine:g}" if spec.min_cosine is not None else "",
        f"build p99 at most {spec.max_latency_p99_ms:g} ms" if spec.max_latency_p99_ms else "",
        *(
            f"{name}: {goal.rate_per_instance:g} requests/s per instance, p99 at most {goal.p99_ms:g} ms"
            for name, goal in spec.performance.items()
        ),
        *(
            f"{describe_days(window.days)} {window.start}–{window.end} {window.timezone}"
            for window in spec.windows
        ),
    ]
    return PromotionGates(spec.source, tuple(filter(None, required)))


def describe_days(days: Collection[str]) -> str:
    """Return days of the week in order, adjacent ones as a range: `MON–WED, FRI`."""
    runs: list[list[str]] = []
    for previous, day in zip((None, *DAYS), DAYS, strict=False):
        if day not in days:
            continue
        if previous in days:
            runs[-1].append(day)
        else:
            runs.append([day])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def _costs(workspace: Workspace) -> Iterator[EndpointCost]:
    spec = workspace.spec
    if not spec.costs_money:
        return
    for name, endpoint in spec.endpoints.items():
        variants = endpoint.variants
        prices = [spec.prices.get(variant.instance.name) for variant in variants]
        machines = tuple(_machine(variant, price) for variant, price in zip(variants, prices, strict=True))
        amounts = [price for price in prices if price is not None]
        if len(amounts) < len(prices):
            yield EndpointCost(name, machines, None, None)
            continue
        # Copies of an inference component share instances; their number decides the instances.
        least = sum(price * variant.scaling.lowest for price, variant in zip(amounts, variants, strict=True))
        most = sum(price * variant.scaling.highest for price, variant in zip(amounts, variants, strict=True))
        yield EndpointCost(name, machines, least * HOURS_PER_MONTH, most * HOURS_PER_MONTH)


def _machine(variant: Variant, price: float | None) -> str:
    scaling = variant.scaling
    count = (
        f"{scaling.lowest}–{scaling.highest}" if scaling.lowest != scaling.highest else f"{scaling.lowest}"
    )
    priced = f"{price:g} per hour" if price is not None else "no price"
    return f"{variant.name}: {count} × {variant.instance.name}, {priced}"
