"""Check that an environment's region offers what its stacks need: errors, and warnings if it is unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tritonstack.base.error_kinds import RegionError
from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml import Document, FieldPath
from tritonstack.reference.images import ACCOUNTS
from tritonstack.reference.region_features import (
    MissingFeature,
    has_schemas,
    regions_with,
    unconfirmed,
    zone_id_prefix,
    zones_of,
)
from tritonstack.spec.environments.delivery import DeliverySpec
from tritonstack.spec.environments.environment import EnvironmentSpec

_CONFIRM = "region_features"
_BUILD_ELSEWHERE = "write `builds: {{enabled: false}}` and run `tritonstack build {name} --local`, or "

Needs = Mapping[str, FieldPath]
"""The features that a file needs, and the field that asks for each."""


def region_violations(document: Document[EnvironmentSpec]) -> Iterator[FileViolation]:
    """Yield features that the region does not offer."""
    spec = document.record
    needs = _needs(spec)
    for missing in unconfirmed(spec.region, needs, spec.region_features):
        if missing.certain:
            yield _violation(document, needs[missing.feature.name], missing, spec.name)
    yield from _wrong_zones(document)


def region_warnings(document: Document[EnvironmentSpec]) -> list[FileViolation]:
    """Return features that AWS does not document for the region."""
    spec = document.record
    return list(_warnings(document, spec.region, _needs(spec), spec.region_features))


def pipeline_violations(document: Document[DeliverySpec]) -> Iterator[FileViolation]:
    """Yield features that the pipeline's region does not offer."""
    pipeline = document.record.pipeline
    if pipeline is None:
        return
    for missing in unconfirmed(pipeline.region, ["pipeline"], pipeline.region_features):
        if missing.certain:
            yield _violation(document, ("pipeline", "region"), missing)


def pipeline_warnings(document: Document[DeliverySpec]) -> list[FileViolation]:
    """Return features that AWS does not document for the pipeline's region."""
    pipeline = document.record.pipeline
    if pipeline is None:
        return []
    needs: Needs = {"pipeline": ("pipeline", "region")}
    return list(_warnings(document, pipeline.region, needs, pipeline.region_features))


def _needs(spec: EnvironmentSpec) -> dict[str, FieldPath]:
    region: FieldPath = ("region",)
    needs: dict[str, FieldPath] = {"environment": region}
    if spec.builds_in_account:
        needs["builds"] = region
    if spec.network is not None and spec.network.create is not None:
        needs["network"] = ("network", "create")
    for name, endpoint in spec.endpoints.items():
        needs.setdefault("endpoints", region)
        if endpoint.scaling.varies:
            needs.setdefault("scaling", ("endpoints", name, "scaling"))
        if endpoint.components is not None:
            needs.setdefault("inference-components", ("endpoints", name, "components"))
            if endpoint.scaling.lowest == 0:
                needs.setdefault("scale-to-zero", ("endpoints", name, "scaling", "min_instances"))
    return needs


def _warnings(
    document: Document[EnvironmentSpec] | Document[DeliverySpec],
    region: str,
    needs: Needs,
    confirmed: tuple[str, ...],
) -> Iterator[FileViolation]:
    if not has_schemas(region):
        unknown = [name for name in needs if name not in confirmed]
        if unknown:
            yield document.violation(
                RegionError,
                ("region",) if isinstance(document.record, EnvironmentSpec) else ("pipeline", "region"),
                f"no CloudFormation schemas for {region}, so these features are not checked: "
                f"{', '.join(unknown)}",
                f"check that AWS offers them there, then write "
                f"`{_CONFIRM}: [{', '.join((*confirmed, *unknown))}]`",
            )
        return
    for missing in unconfirmed(region, needs, confirmed):
        if not missing.certain:
            name = missing.feature.name
            yield document.violation(
                RegionError,
                needs[name],
                f"{missing.reason}; if AWS does not offer {name} there, the deployment fails",
                f"{_other_region(missing)}; or check AWS, then add {name!r} to `{_CONFIRM}`",
            )


def _violation(
    document: Document[EnvironmentSpec] | Document[DeliverySpec],
    place: FieldPath,
    missing: MissingFeature,
    environment: str = "",
) -> FileViolation:
    name = missing.feature.name
    elsewhere = _BUILD_ELSEWHERE.format(name=environment) if name == "builds" else ""
    return document.violation(
        RegionError,
        place,
        missing.reason,
        f"{elsewhere}{_other_region(missing)}; if AWS has added it, add {name!r} to `{_CONFIRM}`",
    )


def _other_region(missing: MissingFeature) -> str:
    """Suggest regions with the feature, those with similar names first."""
    area = missing.region.partition("-")[0]
    regions = regions_with(missing.feature.name, ACCOUNTS)
    near = [region for region in regions if region.startswith(f"{area}-")] or regions
    return f"choose another region, such as {' or '.join(near[:3])}"


def _wrong_zones(document: Document[EnvironmentSpec]) -> Iterator[FileViolation]:
    spec = document.record
    created = spec.network.create if spec.network else None
    zones = zones_of(spec.region)
    if created is None:
        return
    if created.zones > zones:
        field = "availability_zone_ids" if created.availability_zone_ids else "availability_zones"
        yield document.violation(
            RegionError,
            ("network", "create", field),
            f"accounts see {zones} Availability Zones in {spec.region}, got {created.zones}",
            f"write `availability_zones: {zones}`, or choose another region",
        )
    prefix = zone_id_prefix(spec.region)
    for index, zone in enumerate(created.availability_zone_ids or ()):
        if not zone.startswith(prefix):
            yield document.violation(
                RegionError,
                ("network", "create", "availability_zone_ids", index),
                f"{zone!r} is not an Availability Zone of {spec.region}",
                f"choose ids that begin with {prefix}",
            )
