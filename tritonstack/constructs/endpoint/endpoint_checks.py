"""Check an endpoint at synthesis for options that SageMaker would reject or ignore at deployment.

Endpoints from environment files were validated when the file was read. Endpoints of custom CDK apps are
validated here with the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import aws_cdk as cdk

from tritonstack.base import naming
from tritonstack.base.error_kinds import ConstructError
from tritonstack.base.errors import UsageError
from tritonstack.base.yaml import Violation
from tritonstack.constructs.endpoint.triton_variant import TritonVariant
from tritonstack.constructs.model_data import ModelArchive
from tritonstack.files.endpoint.endpoint import ServingOptions
from tritonstack.files.endpoint.rollouts import AlarmId
from tritonstack.files.endpoint.rules import (
    RuledEndpoint,
    component_violations,
    mode_violations,
    multi_model_violations,
    rollout_violations,
    scaling_violations,
)
from tritonstack.files.endpoint.variants import Variant

_RULES: Sequence[Callable[[RuledEndpoint], Iterator[Violation]]] = (
    mode_violations,
    multi_model_violations,
    component_violations,
    scaling_violations,
    rollout_violations,
)


def check_endpoint(
    name: str, variants: Sequence[TritonVariant], options: ServingOptions, *, data_bucket: str | None
) -> None:
    """Reject an invalid endpoint."""
    _check_variants(variants)
    _check_name(name, options)
    if (options.asynchronous or options.data_capture) and not data_bucket:
        raise ConstructError(
            "asynchronous endpoints and data capture need a bucket",
            remedy="set data_bucket to the name of a bucket",
        )
    _check_containers(variants, options)
    ruled = RuledEndpoint(
        options,
        tuple(_as_ruled(variant, options) for variant in variants),
        multi_model=variants[0].model.multi_model,
    )
    for rule in _RULES:
        for violation in rule(ruled):
            field = ".".join(map(str, violation.path))
            raise UsageError(
                f"{name}: {field}: {violation.message}", remedy=violation.remedy, code=violation.code
            )


def check_rollback_ids(name: str, alarms: Iterable[AlarmId] | None, existing: Iterable[str]) -> None:
    """Reject rollback alarms that the endpoint does not have: they would never trigger."""
    available = set(existing)
    for alarm in alarms or ():
        if alarm not in available:
            raise ConstructError(
                f"{name}: rollout.roll_back_on: this endpoint has no alarm {alarm!r}",
                remedy=f"remove it, or choose one of: {', '.join(sorted(available)) or 'none'}",
            )


def _check_variants(variants: Sequence[TritonVariant]) -> None:
    if not variants or variants[0].shadow:
        raise ConstructError(
            "an endpoint needs at least one production variant",
            remedy=("put a variant without shadow=True first in variants"),
        )
    names = [variant.name for variant in variants]
    if len(set(names)) < len(names):
        raise ConstructError(
            f"duplicate variant name in {', '.join(names)}",
            remedy="give each variant a unique name",
        )
    if any(variant.shadow for variant in variants) and len(variants) > 2:
        raise ConstructError(
            "SageMaker allows one shadow variant, with exactly one production variant",
            remedy="remove the other variants, or serve them from a second endpoint",
        )
    if len(variants) > 1 and any(variant.model.multi_model for variant in variants):
        raise ConstructError(
            "a multi-model endpoint has exactly one variant",
            remedy="remove the other variants, or serve them from a second endpoint",
        )


def _check_containers(variants: Sequence[TritonVariant], options: ServingOptions) -> None:
    for variant in variants:
        for name in ("environment", "network_isolation"):
            if getattr(variant.model.options, name) != getattr(options, name):
                raise ConstructError(
                    (
                        f"{name} differs between the options of the endpoint and those of the model of "
                        f"variant {variant.name!r}"
                    ),
                    remedy="pass the same options to TritonModel and TritonEndpoint",
                )


def _check_name(name: str, options: ServingOptions) -> None:
    if cdk.Token.is_unresolved(name):
        return
    longest = naming.component_name(name) if options.components else name
    excess = len(longest) - naming.ENDPOINT_NAME_LIMIT
    if excess > 0:
        raise ConstructError(
            (
                f"{longest!r} has {len(longest)} characters; SageMaker allows at most "
                f"{naming.ENDPOINT_NAME_LIMIT} in the name of an endpoint or inference component"
            ),
            remedy=f"shorten the endpoint's name by {excess} characters",
        )


def _as_ruled(variant: TritonVariant, options: ServingOptions) -> Variant:
    """Convert a variant to the record that the rules check."""
    data = variant.model.data
    return Variant(
        name=variant.name,
        model=data.entry_model if isinstance(data, ModelArchive) else None,
        instance=variant.instance,
        scaling=variant.scaled(options),
        weight=variant.weight,
        shadow=variant.shadow,
    )
