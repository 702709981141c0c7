"""Check that an environment's region offers what its stacks need: errors, and warnings if it is unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tritonstack.base.error_kinds import RegionError
from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml import Document, FieldPath, Violation
from tritonstack.facts.images import ACCOUNTS
from tritonstack.facts.region_features import (
    MissingFeature,
    has_schemas,
    regions_with,
    unconfirmed,
    zone_id_prefix,
    zones_of,
)
from tritonstack.files.environment.delivery import DeliverySpec
from tritonstack.files.environment.environment import EnvironmentSpec

_CONFIRM = "region_features"
_BUILD_ELSEWHERE = "write `builds: {{enabled: false}}` and run `tritonstack build {name} --local`, or "


class _Asked(NamedTuple):
    """What a file asks of a region."""

    region: str
    place: FieldPath
    needs: Mapping[str, FieldPath]
    """The features that it needs, and the field that asks for each."""
    confirmed: tuple[str, ...]

    def missing(self, *, certain: bool) -> Iterator[tuple[FieldPath, MissingFeature]]:
        """Yield the features that the region lacks, or may lack, with the fields that ask for them."""
        for missing in unconfirmed(self.region, self.needs, self.confirmed):
            if missing.certain is certain:
                yield self.needs[missing.feature.name], missing


def region_violations(
    document: Document[EnvironmentSpec] | Document[DeliverySpec],
) -> Iterator[FileViolation]:
    """Yield features that the region of an environment or of a pipeline does not offer."""
    for place, missing in _asked(document.record).missing(certain=True):
        name, elsewhere = missing.feature.name, ""
        if name == "builds" and isinstance(document.record, EnvironmentSpec):
            elsewhere = _BUILD_ELSEWHERE.format(name=document.record.name)
        yield document.violation(
            RegionError,
            place,
            missing.reason,
            f"{elsewhere}{_other_region(missing)}; if AWS has added it, add {name!r} to `{_CONFIRM}`",
        )
    if isinstance(document.record, EnvironmentSpec):
        for violation in _wrong_zones(document.record):
            yield document.place(violation)


def region_warnings(document: Document[EnvironmentSpec] | Document[DeliverySpec]) -> list[FileViolation]:
    """Return features that AWS does not document for that region."""
    return list(_warnings(document, _asked(document.record)))


def _asked(spec: EnvironmentSpec | DeliverySpec) -> _Asked:
    if isinstance(spec, EnvironmentSpec):
        return _Asked(spec.region, ("region",), _needs(spec), spec.region_features)
    place, pipeline = ("pipeline", "region"), spec.pipeline
    if pipeline is None:
        return _Asked("", place, {}, ())
    return _Asked(pipeline.region, place, {"pipeline": place}, pipeline.region_features)


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
    document: Document[EnvironmentSpec] | Document[DeliverySpec], asked: _Asked
) -> Iterator[FileViolation]:
    if not has_schemas(asked.region):
        unknown = [name for name in asked.needs if name not in asked.confirmed]
        if unknown:
            yield document.violation(
                RegionError,
                asked.place,
                f"no CloudFormation schemas for {asked.region}, so these features are not checked: "
                f"{', '.join(unknown)}",
                f"check that AWS offers them there, then write "
                f"`{_CONFIRM}: [{', '.join((*asked.confirmed, *unknown))}]`",
            )
        return
    for place, missing in asked.missing(certain=False):
        name = missing.feature.name
        yield document.violation(
            RegionError,
            place,
            f"{missing.reason}; if AWS does not offer {name} there, the deployment fails",
            f"{_other_region(missing)}; or check AWS, then add {name!r} to `{_CONFIRM}`",
        )


def _other_region(missing: MissingFeature) -> str:
    """Suggest regions with the feature, those with similar names first."""
    area = missing.region.partition("-")[0]
    regions = regions_with(missing.feature.name, ACCOUNTS)
    near = [region for region in regions if region.startswith(f"{area}-")] or regions
    return f"choose another region, such as {' or '.join(near[:3])}"


def _wrong_zones(spec: EnvironmentSpec) -> Iterator[Violation]:
    created = spec.network.create if spec.network else None
    zones = zones_of(spec.region)
    if created is None:
        return
    if created.zones > zones:
        field = "availability_zone_ids" if created.availability_zone_ids else "availability_zones"
        yield RegionError.at(
            ("network", "create", field),
            f"accounts see {zones} Availability Zones in {spec.region}, got {created.zones}",
            f"write `availability_zones: {zones}`, or choose another region",
        )
    prefix = zone_id_prefix(spec.region)
    for index, zone in enumerate(created.availability_zone_ids or ()):
        if not zone.startswith(prefix):
            yield RegionError.at(
                ("network", "create", "availability_zone_ids", index),
                f"{zone!r} is not an Availability Zone of {spec.region}",
                f"choose ids that begin with {prefix}",
            )
