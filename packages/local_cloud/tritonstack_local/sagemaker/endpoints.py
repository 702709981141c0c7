"""Plan endpoints, and check endpoint requests against the endpoint's state; hosting runs them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tritonstack_local.sagemaker import rules
from tritonstack_local.sagemaker.hosting.hosting import Hosting
from tritonstack_local.sagemaker.hosting.status import describe
from tritonstack_local.sagemaker.hosting.updates import check_rollout
from tritonstack_local.sagemaker.records import (
    ALLOWED,
    RANDOM,
    DeploymentPlan,
    EndpointPlan,
    EndpointRecord,
    PendingUpdate,
    SageMakerTables,
    Status,
    StoredRecord,
    VariantRecord,
    arn_of,
    counts_of,
    now,
)
from tritonstack_local.sagemaker.resources import Resources, page
from tritonstack_local.sagemaker.rules import already_exists, not_found, not_supported
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import validation_exception
from tritonstack_local.service.wire import Fields

# SageMaker's defaults: eight minutes for the first healthy ping, and an hour for the download.
STARTUP_TIMEOUT_S = 480.0
DOWNLOAD_TIMEOUT_S = 3600.0
# Variables that SageMaker adds for multi-model containers.
MULTI_MODEL_VARIABLE = "SAGEMAKER_MULTI_MODEL"


def plan_endpoint(scope: Scope, endpoint: str, config: StoredRecord, models: Resources) -> EndpointPlan:
    """Return the plan of a configuration and its models, which must exist."""
    data_capture = config.fields.get("DataCaptureConfig")
    variants = []
    for variant in config.fields["ProductionVariants"]:
        model = models.get(scope, variant["ModelName"])
        container = model.fields.get("PrimaryContainer") or model.fields["Containers"][0]
        multi_model = container.get("Mode") == "MultiModel"
        caching = container.get("MultiModelConfig", {}).get("ModelCacheSetting", "Enabled")
        added = {MULTI_MODEL_VARIABLE: "true"} if multi_model else {}
        plan = DeploymentPlan(
            scope=scope,
            endpoint=endpoint,
            variant=variant["VariantName"],
            image=container["Image"],
            environment={**container.get("Environment", {}), **added},
            model_data_url=container.get("ModelDataUrl"),
            download_timeout_s=variant.get("ModelDataDownloadTimeoutInSeconds", DOWNLOAD_TIMEOUT_S),
            startup_timeout_s=variant.get("ContainerStartupHealthCheckTimeoutInSeconds", STARTUP_TIMEOUT_S),
            instance_type=variant["InstanceType"],
            volume_gb=variant.get("VolumeSizeInGB"),
            multi_model=multi_model,
            model_cache=caching == "Enabled",
            capture=data_capture if data_capture and data_capture.get("EnableCapture", True) else None,
            routing=variant.get("RoutingConfig", {}).get("RoutingStrategy", RANDOM),
        )
        capacity = variant["InitialInstanceCount"], variant.get("InitialVariantWeight", 1.0)
        variants.append(VariantRecord(plan, *capacity))
    return EndpointPlan(scope, endpoint, config.name, tuple(variants), data_capture)


NO_ZERO = "a variant needs at least one instance; only inference components scale to zero"


@dataclass(frozen=True)
class VariantCapacity:
    """The instances of a variant, as Application Auto Scaling sees them."""

    desired: int
    running: int
    """The number of servers on this machine."""
    status: Status
    """Status of the endpoint."""
    failure: str | None = None
    """Why the last operation of the endpoint failed."""

    @property
    def settled(self) -> bool:
        """Whether no operation of the endpoint is in progress."""
        return self.status in {"InService", "Failed"}

    @property
    def shortage(self) -> str | None:
        """A note if this machine runs fewer servers than there are instances."""
        if self.running >= self.desired:
            return None
        return f"This machine runs {self.running} of {self.desired} instances."


class Endpoints:
    """The endpoint actions."""

    def __init__(
        self,
        *,
        store: SageMakerTables,
        models: Resources,
        configs: Resources,
        hosting: Hosting,
        clients: Clients,
    ) -> None:
        self._store = store
        self._models = models
        self._configs = configs
        self._hosting = hosting
        self._clients = clients

    def create(self, scope: Scope, request: Fields) -> Fields:
        """Start to create an endpoint."""
        name = request["EndpointName"]
        plan = self._plan(scope, request)
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
            raise already_exists("endpoint", record.arn)
        self._store.tags.put(record.arn, request.get("Tags", []))
        self._hosting.create(record)
        return {"EndpointArn": record.arn}

    def update(self, scope: Scope, request: Fields) -> Fields:
        """Start to update an endpoint."""
        name = request["EndpointName"]
        record = self._endpoint(scope, name)
        # As on AWS: an endpoint whose configuration was deleted can no longer be updated.
        self._configs.get(scope, record.plan.config_name)
        plan = self._plan(scope, request)
        self._reject_unscalable(record, scope, plan)

        def begin(current: EndpointRecord) -> EndpointRecord:
            variants = _retained(request, old=current.variants, new=plan.variants)
            retains = request.get("RetainDeploymentConfig", False)
            config = current.deployment_config if retains else request.get("DeploymentConfig")
            pending = PendingUpdate(plan, variants, config, now())
            updating = _step(current, "Updating", pending=pending)
            check_rollout(config, counts_of(variants))
            return updating

        updating = self._store.endpoints.change(scope, name, begin)
        if updating is None or updating.pending is None:
            raise not_found("endpoint", record.arn)
        self._hosting.update(updating, updating.pending)
        return {"EndpointArn": record.arn}

    def update_weights_and_capacities(self, scope: Scope, request: Fields) -> Fields:
        """Start to scale variants; changes of weights apply at once."""
        name = request["EndpointName"]
        changes = {item["VariantName"]: item for item in request["DesiredWeightsAndCapacities"]}
        for item in changes.values():
            rules.reject_unsupported("DesiredWeightAndCapacity", item)
            if item.get("DesiredInstanceCount") == 0:
                raise not_supported("DesiredInstanceCount 0", NO_ZERO)
        former = self._endpoint(scope, name)

        def note(current: EndpointRecord) -> EndpointRecord:
            nonlocal former
            unknown = changes.keys() - {variant.name for variant in current.variants}
            if unknown:
                raise validation_exception(f'Could not find variants "{", ".join(sorted(unknown))}".')
            variants = tuple(_scaled(item, changes.get(item.name, {})) for item in current.variants)
            former, updating = current, _step(current, "Updating", variants=variants)
            same = counts_of(variants) == counts_of(current.variants)
            return updating.settled("InService") if same else updating

        record = self._store.endpoints.change(scope, name, note)
        if record is None:
            raise not_found("endpoint", former.arn)
        if record.status == "InService":
            self._hosting.weigh(record)
        else:
            self._hosting.scale(record, former.variants)
        return {"EndpointArn": record.arn}

    def capacity_of(self, scope: Scope, endpoint: str, variant: str) -> VariantCapacity | None:
        """Return the capacity of a variant; None if it does not exist."""
        record = self._store.endpoints.get(scope, endpoint)
        desired = None if record is None else counts_of(record.variants).get(variant)
        if record is None or desired is None:
            return None
        running = self._hosting.servers_of(scope, endpoint, variant)
        return VariantCapacity(desired, running, record.status, record.failure_reason)

    def delete(self, scope: Scope, request: Fields) -> Fields:
        """Start to delete an endpoint."""
        record = self._store.endpoints.change(
            scope, request["EndpointName"], lambda current: _step(current, "Deleting")
        )
        if record is None:
            raise not_found("endpoint", arn_of(scope, "endpoint", request["EndpointName"]))
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

    def _plan(self, scope: Scope, request: Fields) -> EndpointPlan:
        config = self._configs.get(scope, request["EndpointConfigName"])
        return plan_endpoint(scope, request["EndpointName"], config, self._models)

    def _endpoint(self, scope: Scope, name: str) -> EndpointRecord:
        record = self._store.endpoints.get(scope, name)
        if record is None:
            raise not_found("endpoint", arn_of(scope, "endpoint", name))
        return record

    def _reject_unscalable(self, record: EndpointRecord, scope: Scope, plan: EndpointPlan) -> None:
        """Reject removal or a new instance type of a variant that is a scalable target."""
        kept = {(variant.name, variant.plan.instance_type) for variant in plan.variants}
        changed = {
            f"endpoint/{record.name}/variant/{variant.name}": variant.name
            for variant in record.variants
            if (variant.name, variant.plan.instance_type) not in kept
        }
        if not changed:
            return
        targets = self._clients.client("application-autoscaling", scope).describe_scalable_targets(
            ServiceNamespace="sagemaker",
            ResourceIds=list(changed),
            ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        )["ScalableTargets"]
        scaled = [changed[target["ResourceId"]] for target in targets]
        if scaled:
            raise validation_exception(
                f'The variant(s) "[{", ".join(scaled)}]" must be deregistered as scalable targets with AWS '
                "Auto Scaling before they can be removed or have their instance type updated."
            )


def _step(record: EndpointRecord, status: Status, **changes: Any) -> EndpointRecord:
    """Apply a caller's state change, or raise AWS's error."""
    if record.status in ALLOWED[status]:
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
    retained = [
        field
        for field, kind in (("instance_count", "DesiredInstanceCount"), ("weight", "DesiredWeight"))
        if kind not in excluded
    ]
    former = {variant.name: {name: getattr(variant, name) for name in retained} for variant in old}
    return tuple(replace(variant, **former.get(variant.name, {})) for variant in new)


def _scaled(variant: VariantRecord, change: Fields) -> VariantRecord:
    return replace(
        variant,
        instance_count=change.get("DesiredInstanceCount", variant.instance_count),
        weight=change.get("DesiredWeight", variant.weight),
    )
