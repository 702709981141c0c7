"""What a simulation needs of an environment: policies, service curve, start times, and prices."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from tritonstack.base.error_kinds import CommandLineError, NotApplicableError
from tritonstack.base.errors import InvalidFilesError
from tritonstack.constructs.endpoint.scaling_plan import ScalingPlan, scaling_plans
from tritonstack.constructs.monitoring.monitored import Monitored, monitored_endpoint
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.endpoint.endpoint import Components, EndpointSpec, MultiModelEndpoint, SingleEndpoint
from tritonstack.files.endpoint.rollouts import Rolling
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.project.names import require_known
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.locks import LockedArtifact
from tritonstack.operate.shared.artifacts import published_manifest
from tritonstack.operate.shared.session import Session
from tritonstack_sizing.errors import NoMeasurementsError
from tritonstack_sizing.loads.runs import load_runs
from tritonstack_sizing.simulation.options import SimulationOptions
from tritonstack_sizing.simulation.serving import (
    ModelCache,
    ServiceCurve,
    ServingSetup,
    manifest_curve,
    measured_curve,
)
from tritonstack_sizing.simulation.simulation import FleetPlan, PlannedUpdate, SimulationSetup, StartTimes

Settings = Mapping[str, object]
"""Keys of `scaling` in an environment file; None removes a key."""
_REQUEST_TIMEOUT_S = 60.0
"""SageMaker ends a request after 60 seconds."""
_QUEUED_TIMEOUT_S = 6 * 3600.0
"""The default time to live of an asynchronous request."""
_DOWNLOAD_BYTES_PER_S, _EXTRACT_BYTES_PER_S, _READ_BYTES_PER_S = 100e6, 200e6, 500e6
_CONTAINER_S, _MODEL_S = 20.0, 1.0
"""Assumed: start of a container, and of a model in a running one, without its bytes."""
_MODEL_MEMORY = 0.8
"""Assumed: share of an instance's memory for the models of a multi-model endpoint."""
_COPY_KEYS = {
    "min_instances": "min_copies",
    "max_instances": "max_copies",
    "invocations_per_instance": "invocations_per_copy",
    "concurrent_requests_per_model": "concurrent_requests_per_copy",
}
"""Keys of `scaling`, and those of `components` with the same meaning."""


@dataclass(frozen=True)
class SimulatedEndpoint:
    """One endpoint of an environment, as a simulation sees it."""

    workspace: Workspace = field(repr=False)
    name: str
    curve: ServiceCurve
    notes: tuple[str, ...]

    @property
    def spec(self) -> EndpointSpec:
        """The endpoint's record."""
        return self.workspace.spec.endpoints[self.name]

    @property
    def monitored(self) -> Monitored:
        """Its metrics."""
        return monitored_endpoint(self.workspace.spec, self.name)

    @property
    def price(self) -> float | None:
        """The price per instance hour, if the environment has it."""
        return self.workspace.spec.prices.get(self.spec.instance.name)

    def settings(self) -> dict[str, object]:
        """Return the present values of `scaling`, with the limits and targets of copies in its keys."""
        values = self.spec.scaling.model_dump(mode="json", exclude_none=True)
        scaling = {key: value for key, value in values.items() if value != {}}
        components = self.spec.components
        for key, copy_key in _COPY_KEYS.items() if components else ():
            scaling.pop(key, None)
            if (value := getattr(components, copy_key)) is not None:
                scaling[key] = value
        return scaling

    def changed(self, settings: Settings) -> EndpointSpec | None:
        """Return the endpoint with other values of `scaling`; None if that would be invalid."""
        if not settings:
            return self.spec
        data = self.spec.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        for path, changes in self.edits(settings).items():
            part = data.setdefault(path, {})
            for key, value in changes.items():
                if value is None:
                    part.pop(key, None)
                else:
                    part[key] = value
        try:
            return type(self.spec).model_validate_json(json.dumps(data))
        except (ValidationError, ValueError):
            return None

    def edits(self, settings: Settings) -> dict[str, dict[str, object]]:
        """Return the changes of an endpoint's mappings, without values that it has already."""
        present = self.settings()
        changed = {key: value for key, value in settings.items() if present.get(key) != value}
        if not self.spec.components:
            return {"scaling": changed}
        copies = {_COPY_KEYS[key]: value for key, value in changed.items() if key in _COPY_KEYS}
        others = {key: value for key, value in changed.items() if key not in _COPY_KEYS}
        return {key: part for key, part in (("components", copies), ("scaling", others)) if part}

    def setup(self, options: SimulationOptions, spec: EndpointSpec | None = None) -> SimulationSetup:
        """Return what to simulate; `spec` is the endpoint with another policy."""
        spec = spec or self.spec
        plan = self._plan(spec)
        fixed = spec.components.min_copies if spec.components else spec.scaling.min_instances
        instance = spec.instance
        return SimulationSetup(
            serving=self._serving(options),
            fleet=FleetPlan(
                StartTimes(options.provisioning_s, self.loading_s(options)),
                no_capacity=options.no_capacity,
                updates=tuple(_updates(spec, options)),
                per_instance=_copies_per_instance(spec),
            ),
            plan=plan,
            initial=plan.minimum if plan else fixed,
            price_per_hour=self.price,
            units={"CPUUtilization": instance.vcpus, "GPUUtilization": max(1, instance.gpus)},
            seed=options.seed,
        )

    def loading_s(self, options: SimulationOptions) -> float:
        """Return how long a new instance takes to load the artifact."""
        if options.loading_s is not None:
            return options.loading_s
        if isinstance(self.spec, MultiModelEndpoint):
            return _CONTAINER_S  # models are loaded when they are asked for
        return _CONTAINER_S + _load_s(_artifact(self.workspace, self.name, self.spec.model))

    def _plan(self, spec: EndpointSpec) -> ScalingPlan | None:
        environment: EnvironmentSpec = self.workspace.spec.model_copy(
            update={"endpoints": {**self.workspace.spec.endpoints, self.name: spec}}
        )
        monitored = monitored_endpoint(environment, self.name)
        plan_id = "copies" if monitored.component else monitored.main.name
        return next((plan for plan in scaling_plans(monitored, spec) if plan.id == plan_id), None)

    def _serving(self, options: SimulationOptions) -> ServingSetup:
        spec, curve = self.spec, self.curve
        if spec.asynchronous:
            curve = curve.limited(spec.asynchronous.max_concurrent_per_instance)
        return ServingSetup(
            curve,
            timeout_s=_QUEUED_TIMEOUT_S if spec.asynchronous else _REQUEST_TIMEOUT_S,
            queued=spec.asynchronous is not None,
            queue_limit=self._queue_limit(),
            cache=self._cache(options) if isinstance(spec, MultiModelEndpoint) else None,
        )

    def _queue_limit(self) -> int:
        if isinstance(self.spec, MultiModelEndpoint):
            return 0
        queue = self.workspace.models[self.spec.model].record.batching.queue
        return queue.max_waiting if queue else 0

    def _cache(self, options: SimulationOptions) -> ModelCache:
        spec = self.spec
        models = spec.models
        for name in options.popularity:
            require_known(name, models, f"the endpoint {self.name!r} serves no model")
        artifacts = [_artifact(self.workspace, self.name, model) for model in models]
        shares = [options.popularity.get(model, 0.0 if options.popularity else 1.0) for model in models]
        return ModelCache(
            sizes=tuple(artifact.unpacked_bytes + (artifact.copies_bytes or 0) for artifact in artifacts),
            load_s=tuple(_load_s(artifact) for artifact in artifacts),
            shares=tuple(share / sum(shares) for share in shares),
            memory_bytes=_MODEL_MEMORY * spec.instance.memory_gib * 2**30,
        )


def find_endpoint(
    session: Session, workspace: Workspace, name: str, options: SimulationOptions
) -> SimulatedEndpoint:
    """Return an endpoint with its service curve."""
    require_known(name, workspace.spec.endpoints, f"environment {workspace.spec.name!r} has no endpoint")
    spec = workspace.spec.endpoints[name]
    if options.popularity and not isinstance(spec, MultiModelEndpoint):
        raise NotApplicableError(
            f"--popularity applies to multi-model endpoints; {name!r} serves one model",
            remedy="omit --popularity",
        )
    curve = _curve(session, workspace, name, options)
    return SimulatedEndpoint(workspace, name, curve, tuple(_notes(workspace, name, curve)))


def _curve(session: Session, workspace: Workspace, name: str, options: SimulationOptions) -> ServiceCurve:
    spec = workspace.spec.endpoints[name]
    models = spec.models if isinstance(spec, MultiModelEndpoint) else (spec.model,)
    if options.bench is not None:
        saved = load_runs(options.bench)
        if saved.model not in models:
            raise CommandLineError(
                f"{options.bench} measured the model {saved.model!r}; {name!r} serves {', '.join(models)}",
                remedy="pass a result of this endpoint's model",
            )
        return measured_curve(saved, source=f"{options.bench.name}, measured on {saved.measured_on}")
    artifact = _artifact(workspace, name, models[0])
    manifest = published_manifest(
        session.cloud(workspace.spec).client("s3"),
        bucket=workspace.spec.artifact_bucket,
        model=models[0],
        digest=artifact.digest,
    )
    if manifest is None:
        raise NoMeasurementsError(
            f"the manifest of {models[0]!r} is not in s3://{workspace.spec.artifact_bucket}",
            remedy=f"run `tritonstack deploy {workspace.cli_arguments}` to publish it, or pass --bench FILE",
        )
    return manifest_curve(manifest)


def _notes(workspace: Workspace, name: str, curve: ServiceCurve) -> Iterator[str]:
    spec = workspace.spec.endpoints[name]
    yield from curve.notes
    if curve.instance not in {None, spec.instance.name}:
        yield (
            f"the service curve is from {curve.instance}, not from {spec.instance.name}: instances, "
            "latency, and cost on AWS will differ"
        )
    if isinstance(spec, SingleEndpoint) and len(spec.variants) > 1:
        yield "only the main variant is simulated, with its share of the requests"
    if isinstance(spec, MultiModelEndpoint):
        yield "all models answer as fast as the measured one; only their loading times differ"
    if spec.instance.name not in workspace.spec.prices:
        yield (
            f"{workspace.spec.name}.yaml has no price of {spec.instance.name} in `prices`: instance hours "
            "are shown instead of costs"
        )


def _artifact(workspace: Workspace, name: str, model: str) -> LockedArtifact:
    artifact = workspace.artifact_for(model, workspace.spec.endpoints[name].instance)
    if artifact is None:
        raise InvalidFilesError(unbuilt(workspace, name))
    return artifact


def _load_s(artifact: LockedArtifact) -> float:
    """Return the assumed time to download, extract, and load an artifact."""
    return (
        _MODEL_S
        + artifact.archive_bytes / _DOWNLOAD_BYTES_PER_S
        + artifact.unpacked_bytes / _EXTRACT_BYTES_PER_S
        + (artifact.unpacked_bytes + (artifact.copies_bytes or 0)) / _READ_BYTES_PER_S
    )


def _updates(spec: EndpointSpec, options: SimulationOptions) -> Iterator[PlannedUpdate]:
    rollout = spec.planned_rollout
    for at in options.rollouts:
        if isinstance(rollout, Rolling):
            batches = -(-100 // rollout.batch_percent)
            yield PlannedUpdate(at, rollout.shifting_s, rollout.batch_percent / 100, batches)
        else:
            yield PlannedUpdate(at, rollout.shifting_s)


def _copies_per_instance(spec: EndpointSpec) -> int:
    components: Components | None = spec.components
    if components is None:
        return 1
    instance = spec.instance
    fitting = [int(instance.memory_gib * 1024 // components.memory_mb)]
    if components.cpus:
        fitting.append(int(instance.vcpus // components.cpus))
    if instance.gpus:
        fitting.append(instance.gpus // (components.accelerators or 1))
    return max(1, min(fitting))


def main_share(spec: EndpointSpec) -> float:
    """Return the share of the requests that the main variant answers."""
    return spec.variants[0].weight
