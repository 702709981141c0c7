"""Check endpoint requests against the endpoint's state; hosting runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tritonstack_local.identity.scope import Scope
from tritonstack_local.sagemaker.control_plane import refusals
from tritonstack_local.sagemaker.control_plane.clock import now
from tritonstack_local.sagemaker.control_plane.endpoint_description import describe
from tritonstack_local.sagemaker.control_plane.errors import already_exists, not_built, not_found
from tritonstack_local.sagemaker.control_plane.planning import plan_endpoint
from tritonstack_local.sagemaker.control_plane.plans import Capacity, EndpointPlan, VariantRecord, counts_of
from tritonstack_local.sagemaker.control_plane.records import (
    EndpointRecord,
    PendingUpdate,
    SageMakerTables,
    Status,
    arn_of,
)
from tritonstack_local.sagemaker.control_plane.resources import ENDPOINT, Fields, page
from tritonstack_local.sagemaker.hosting.hosting import Hosting
from tritonstack_local.sagemaker.hosting.lookups import IsScaled
from tritonstack_local.sagemaker.hosting.rollouts import check_rollout
from tritonstack_local.service.errors import validation_exception

NO_ZERO = "a variant needs at least one instance; only inference components scale to zero"


class Endpoints:
    """The endpoint actions."""

    def __init__(self, *, store: SageMakerTables, hosting: Hosting, is_scaled: IsScaled) -> None:
        self._store = store
        self._hosting = hosting
        self._is_scaled = is_scaled

    def create(self, scope: Scope, request: Fields) -> Fields:
        """Start to create an endpoint."""
        name = request["EndpointName"]
        plan = plan_endpoint(self._store, scope, endpoint=name, config_name=request["EndpointConfigName"])
        config, created = request.get("DeploymentConfig"), now()
        record = EndpointRecord(
            name=name,
            arn=arn_of(scope, "endpoint", name),
            status="Creating",
            created=created,
            modified=created,
            plan=plan,
            variants=plan.variants,
            deployment_config=config,
            pending=PendingUpdate(plan, plan.variants, config, created),
        )
        if not self._store.endpoints.add(scope, record):
            raise already_exists(ENDPOINT, record.arn)
        self._store.tags.put(record.arn, request.get("Tags", []))
        self._hosting.create(record)
        return {"EndpointArn": record.arn}

    def update(self, scope: Scope, request: Fields) -> Fields:
        """Start to update an endpoint."""
        name = request["EndpointName"]
        record = self._endpoint(scope, name)
        plan = plan_endpoint(self._store, scope, endpoint=name, config_name=request["EndpointConfigName"])
        self._refuse_unscalable(record, scope, plan)

        def begin(current: EndpointRecord) -> EndpointRecord:
            variants = _retained(request, old=current.variants, new=plan.variants)
            config = _deployment_config(request, current)
            pending = PendingUpdate(plan, variants, config, now())
            updating = _step(current, "Updating", pending=pending)
            check_rollout(config, counts_of(variants))
            return updating

        updating = self._store.endpoints.change(scope, name, begin)
        if updating is None or updating.pending is None:
            raise not_found(ENDPOINT, record.arn)
        self._hosting.update(updating, updating.pending)
        return {"EndpointArn": record.arn}

    def update_weights_and_capacities(self, scope: Scope, request: Fields) -> Fields:
        """Start to scale variants; changes of weights apply at once."""
        name = request["EndpointName"]
        wanted = {item["VariantName"]: item for item in request["DesiredWeightsAndCapacities"]}
        for item in wanted.values():
            refusals.refuse_unbuilt("DesiredWeightAndCapacity", item)
            if item.get("DesiredInstanceCount") == 0:
                raise not_built("DesiredInstanceCount 0", NO_ZERO)
        former = self._endpoint(scope, name)

        def note(current: EndpointRecord) -> EndpointRecord:
            nonlocal former
            unknown = wanted.keys() - {variant.name for variant in current.variants}
            if unknown:
                raise validation_exception(f'Could not find variants "{", ".join(sorted(unknown))}".')
            variants = tuple(_scaled(item, wanted.get(item.name, {})) for item in current.variants)
            former, updating = current, _step(current, "Updating", variants=variants)
            same = counts_of(variants) == counts_of(current.variants)
            return updating.settled("InService") if same else updating

        record = self._store.endpoints.change(scope, name, note)
        if record is None:
            raise not_found(ENDPOINT, former.arn)
        if record.status == "InService":
            self._hosting.weigh(record)
        else:
            self._hosting.scale(record, former.variants)
        return {"EndpointArn": record.arn}

    def delete(self, scope: Scope, request: Fields) -> Fields:
        """Start to delete an endpoint."""
        record = self._store.endpoints.change(
            scope, request["EndpointName"], lambda current: _step(current, "Deleting")
        )
        if record is None:
            raise not_found(ENDPOINT, arn_of(scope, "endpoint", request["EndpointName"]))
        self._hosting.delete(record)
        return {}

    def describe(self, scope: Scope, request: Fields) -> Fields:
        """Describe an endpoint."""
        record = self._endpoint(scope, request["EndpointName"])
        return describe(record, *self._hosting.fleets(scope, record.name))

    def list(self, scope: Scope, request: Fields) -> Fields:
        """List endpoints."""
        records, token = page(self._store.endpoints.within(scope), request)
        summaries = [
            {
                "EndpointName": record.name,
                "EndpointArn": record.arn,
                "CreationTime": record.created,
                "LastModifiedTime": record.modified,
                "EndpointStatus": record.status,
            }
            for record in records
        ]
        return {"Endpoints": summaries, "NextToken": token}

    def _endpoint(self, scope: Scope, name: str) -> EndpointRecord:
        record = self._store.endpoints.get(scope, name)
        if record is None:
            raise not_found(ENDPOINT, arn_of(scope, "endpoint", name))
        return record

    def _refuse_unscalable(self, record: EndpointRecord, scope: Scope, plan: EndpointPlan) -> None:
        """Reject removal or a new instance type of a variant that is a scalable target."""
        kept = {(variant.name, variant.instance_type) for variant in plan.variants}
        scaled = [
            variant.name
            for variant in record.variants
            if (variant.name, variant.instance_type) not in kept
            and self._is_scaled(scope, record.name, variant.name)
        ]
        if scaled:
            raise validation_exception(
                f'The variant(s) "[{", ".join(scaled)}]" must be deregistered as scalable targets with AWS '
                "Auto Scaling before they can be removed or have their instance type updated."
            )


def _step(record: EndpointRecord, status: Status, **changes: Any) -> EndpointRecord:
    """Apply a caller's state change, or raise AWS's error."""
    if record.can_become(status):
        return record.moved_to(status, **changes)
    if record.status == "Failed":
        raise validation_exception(f'Cannot update failed endpoint "{record.arn}"; it can only be deleted.')
    raise validation_exception(f'Cannot update in-progress endpoint "{record.arn}".')


def _retained(
    request: Fields, *, old: tuple[VariantRecord, ...], new: tuple[VariantRecord, ...]
) -> tuple[VariantRecord, ...]:
    """Retain instance counts and weights of existing variants if requested, except excluded properties."""
    if not request.get("RetainAllVariantProperties", False):
        return new
    excluded = {item["VariantPropertyType"] for item in request.get("ExcludeRetainedVariantProperties", [])}
    running = {variant.name: variant.capacity for variant in old}
    return tuple(
        replace(variant, capacity=_merged(running.get(variant.name), variant.capacity, excluded))
        for variant in new
    )


def _merged(running: Capacity | None, configured: Capacity, excluded: set[str]) -> Capacity:
    if running is None:
        return configured
    return Capacity(
        instance_count=(configured if "DesiredInstanceCount" in excluded else running).instance_count,
        weight=(configured if "DesiredWeight" in excluded else running).weight,
    )


def _deployment_config(request: Fields, record: EndpointRecord) -> Mapping[str, Any] | None:
    if request.get("RetainDeploymentConfig", False):
        return record.deployment_config
    return request.get("DeploymentConfig")


def _scaled(variant: VariantRecord, wanted: Fields) -> VariantRecord:
    capacity = Capacity(
        instance_count=wanted.get("DesiredInstanceCount", variant.capacity.instance_count),
        weight=wanted.get("DesiredWeight", variant.capacity.weight),
    )
    return replace(variant, capacity=capacity)
