"""CreateEndpoint and its relatives: checks a request against an endpoint's state; hosting does the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from local_cloud.sagemaker import refusals
from local_cloud.sagemaker.deployment import DeploymentPlan
from local_cloud.sagemaker.faults import already_exists, not_found, validation_exception
from local_cloud.sagemaker.hosting import Hosting
from local_cloud.sagemaker.listing import page
from local_cloud.sagemaker.records import (
    Capacity,
    EndpointRecord,
    PendingUpdate,
    Place,
    Status,
    Store,
    now,
)
from local_cloud.sagemaker.resources import CONFIG, ENDPOINT, MODEL, Fields, stored
from local_cloud.sagemaker.scaling import IsScaled

# SageMaker waits eight minutes for the first healthy ping and sets no shorter limit for the download than its
# longest, an hour.
STARTUP_TIMEOUT_S = 480.0
DOWNLOAD_TIMEOUT_S = 3600.0


class Endpoints:
    """The endpoint actions."""

    def __init__(self, *, store: Store, hosting: Hosting, is_scaled: IsScaled) -> None:
        self._store = store
        self._hosting = hosting
        self._is_scaled = is_scaled

    def create(self, place: Place, request: Fields) -> Fields:
        """Begin to create an endpoint."""
        name = request["EndpointName"]
        plan, capacity = self._plan(place, name, request["EndpointConfigName"])
        created = now()
        record = EndpointRecord(
            name=name,
            arn=place.arn("endpoint", name),
            config_name=plan.config_name,
            status="Creating",
            created=created,
            modified=created,
            variant=plan.variant,
            image=plan.image,
            instance_type=plan.instance_type,
            capacity=capacity,
            deployment_config=request.get("DeploymentConfig"),
        )
        if not self._store.endpoints.add(place, record):
            raise already_exists(ENDPOINT, record.arn)
        self._store.tags.put(record.arn, request.get("Tags", []))
        self._hosting.create(plan)
        return {"EndpointArn": record.arn}

    def update(self, place: Place, request: Fields) -> Fields:
        """Begin to replace what an endpoint runs."""
        name = request["EndpointName"]
        record = self._endpoint(place, name)
        plan, capacity = self._plan(place, name, request["EndpointConfigName"])
        self._refuse_unscalable(record, place, plan)
        pending = PendingUpdate(config_name=plan.config_name, started=now())

        def begin(current: EndpointRecord) -> EndpointRecord:
            return _step(current, "Updating", pending=pending)

        updating = self._store.endpoints.change(place, name, begin)
        if updating is None:
            raise not_found(ENDPOINT, record.arn)
        changes = {
            "config_name": plan.config_name,
            "variant": plan.variant,
            "image": plan.image,
            "instance_type": plan.instance_type,
            "capacity": _retained(request, old=updating.capacity, new=capacity),
            "deployment_config": _deployment_config(request, updating),
        }
        self._hosting.update(plan, changes=changes)
        return {"EndpointArn": record.arn}

    def update_weights_and_capacities(self, place: Place, request: Fields) -> Fields:
        """Note other numbers; they hold at once, since no instance has to start or stop."""

        def note(current: EndpointRecord) -> EndpointRecord:
            for wanted in request["DesiredWeightsAndCapacities"]:
                refusals.refuse_unbuilt("DesiredWeightAndCapacity", wanted)
                if wanted["VariantName"] != current.variant:
                    raise validation_exception(f'Could not find variants "{wanted["VariantName"]}".')
                current = replace(current, capacity=_scaled(current.capacity, wanted))
            return _step(_step(current, "Updating"), "InService")

        record = self._store.endpoints.change(place, request["EndpointName"], note)
        if record is None:
            raise not_found(ENDPOINT, place.arn("endpoint", request["EndpointName"]))
        return {"EndpointArn": record.arn}

    def delete(self, place: Place, request: Fields) -> Fields:
        """Begin to delete an endpoint."""
        record = self._store.endpoints.change(
            place, request["EndpointName"], lambda current: _step(current, "Deleting")
        )
        if record is None:
            raise not_found(ENDPOINT, place.arn("endpoint", request["EndpointName"]))
        self._hosting.delete(place, record)
        return {}

    def describe(self, place: Place, request: Fields) -> Fields:
        """Show an endpoint."""
        record = self._endpoint(place, request["EndpointName"])
        shown: dict[str, Any] = {
            "EndpointName": record.name,
            "EndpointArn": record.arn,
            "EndpointConfigName": record.config_name,
            "EndpointStatus": record.status,
            "FailureReason": record.failure_reason,
            "CreationTime": record.created,
            "LastModifiedTime": record.modified,
            "LastDeploymentConfig": record.deployment_config,
        }
        if record.status in ("InService", "Updating", "Deleting"):
            shown["ProductionVariants"] = [_variant(record)]
        if record.pending is not None:
            shown["PendingDeploymentSummary"] = {
                "EndpointConfigName": record.pending.config_name,
                "StartTime": record.pending.started,
            }
        return shown

    def list(self, place: Place, request: Fields) -> Fields:
        """List endpoints."""
        records, token = page(self._store.endpoints.within(place), request)
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

    def _endpoint(self, place: Place, name: str) -> EndpointRecord:
        record = self._store.endpoints.get(place, name)
        if record is None:
            raise not_found(ENDPOINT, place.arn("endpoint", name))
        return record

    def _refuse_unscalable(self, record: EndpointRecord, place: Place, plan: DeploymentPlan) -> None:
        """Refuse to take a variant, or its kind of machine, from under a scaling that counts on it."""
        same = (plan.variant, plan.instance_type) == (record.variant, record.instance_type)
        if not same and self._is_scaled(place, record.name, record.variant):
            raise validation_exception(
                f'The variant(s) "[{record.variant}]" must be deregistered as scalable targets with AWS Auto '
                "Scaling before they can be removed or have their instance type updated."
            )

    def _plan(self, place: Place, endpoint: str, config_name: str) -> tuple[DeploymentPlan, Capacity]:
        config = stored(self._store.configs, place, kind=CONFIG, name=config_name)
        variant = config.fields["ProductionVariants"][0]
        model = stored(self._store.models, place, kind=MODEL, name=variant["ModelName"])
        container = model.fields.get("PrimaryContainer") or model.fields["Containers"][0]
        plan = DeploymentPlan(
            place=place,
            endpoint=endpoint,
            config_name=config_name,
            variant=variant["VariantName"],
            instance_type=variant["InstanceType"],
            image=container["Image"],
            environment=container.get("Environment", {}),
            model_data_url=container.get("ModelDataUrl"),
            download_timeout_s=variant.get("ModelDataDownloadTimeoutInSeconds", DOWNLOAD_TIMEOUT_S),
            startup_timeout_s=variant.get("ContainerStartupHealthCheckTimeoutInSeconds", STARTUP_TIMEOUT_S),
        )
        return plan, Capacity(variant["InitialInstanceCount"], variant.get("InitialVariantWeight", 1.0))


def _step(record: EndpointRecord, status: Status, **changes: Any) -> EndpointRecord:
    """Take a step that a caller asks for, or refuse it in AWS's words."""
    if record.can_become(status):
        return record.moved_to(status, **changes)
    if record.status == "Failed":
        raise validation_exception(f'Cannot update failed endpoint "{record.arn}"; it can only be deleted.')
    raise validation_exception(f'Cannot update in-progress endpoint "{record.arn}".')


def _retained(request: Fields, *, old: Capacity, new: Capacity) -> Capacity:
    """Keep the running numbers when asked to, but for those that are excluded."""
    if not request.get("RetainAllVariantProperties", False):
        return new
    excluded = {item["VariantPropertyType"] for item in request.get("ExcludeRetainedVariantProperties", [])}
    return Capacity(
        instance_count=new.instance_count if "DesiredInstanceCount" in excluded else old.instance_count,
        weight=new.weight if "DesiredWeight" in excluded else old.weight,
    )


def _deployment_config(request: Fields, record: EndpointRecord) -> Mapping[str, Any] | None:
    if request.get("RetainDeploymentConfig", False):
        return record.deployment_config
    return request.get("DeploymentConfig")


def _scaled(capacity: Capacity, wanted: Fields) -> Capacity:
    return Capacity(
        instance_count=wanted.get("DesiredInstanceCount", capacity.instance_count),
        weight=wanted.get("DesiredWeight", capacity.weight),
    )


def _variant(record: EndpointRecord) -> Fields:
    return {
        "VariantName": record.variant,
        "DeployedImages": [{"SpecifiedImage": record.image}],
        "CurrentWeight": record.capacity.weight,
        "DesiredWeight": record.capacity.weight,
        "CurrentInstanceCount": record.capacity.instance_count,
        "DesiredInstanceCount": record.capacity.instance_count,
    }
