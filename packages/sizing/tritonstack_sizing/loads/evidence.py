"""Record load tests as events of an environment, for the gates of a promotion."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.base.error_kinds import CommandLineError, NotRecordedError
from tritonstack.base.files import short_digest
from tritonstack.files.endpoint.endpoint import MultiModelEndpoint
from tritonstack.files.records.events import Event, LoadTest, RecordedLevel, TouchedArtifact
from tritonstack.operate.invoke.invoke import ModelRequest
from tritonstack.operate.shared.aws import explain_denied
from tritonstack.operate.shared.events import new_event, record_event
from tritonstack.operate.shared.revisions import Revision, revision_of
from tritonstack.operate.shared.running import SERVING
from tritonstack_sizing.loads.runs import LoadRun

PERIOD_S = 5.0


def counts_of(variant: Mapping[str, Any]) -> list[int]:
    """Return how many instances may answer now; while they are scaled, SageMaker reports two numbers."""
    current = int(variant["CurrentInstanceCount"])
    return [current, int(variant.get("DesiredInstanceCount", current))]


class InstanceWatch:
    """Reads the number of instances every few seconds until it is stopped."""

    def __init__(self, read: Callable[[], list[int]], *, period_s: float = PERIOD_S) -> None:
        self._read, self._period_s = read, period_s
        self.counts = read()
        """All numbers so far."""
        self.failure: Exception | None = None
        """Why a number is unknown."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Read the number for the last time."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        is_last = False
        while not is_last and self.failure is None:
            is_last = self._stopped.wait(self._period_s)
            try:
                self.counts += self._read()
            except Exception as error:
                self.failure = error


@dataclass(frozen=True)
class ServingInstances:
    """What a variant runs, as SageMaker reports it."""

    config: str
    model: str
    instance_type: str


@dataclass(frozen=True)
class _MeasuredLevel:
    """A level of load, and the instances that answered it."""

    run: LoadRun
    rate: float | None
    is_trace: bool
    watch: InstanceWatch


@dataclass(frozen=True)
class LoadRecorder:
    """Records the load test that follows; it has checked that the endpoint serves the artifact."""

    request: ModelRequest
    variant: str
    artifact: TouchedArtifact
    instances: ServingInstances
    revision: Revision
    levels: list[_MeasuredLevel] = field(default_factory=list)

    def measure(self, send: Callable[[], LoadRun], *, rate: float | None, is_trace: bool) -> LoadRun:
        """Send a level of load, and count the instances meanwhile.

        `rate` is the number of requests due per second, for traces their mean.
        """
        watch = InstanceWatch(self._counts)
        try:
            run = send()
        finally:
            watch.stop()
        self.levels.append(_MeasuredLevel(run, rate, is_trace, watch))
        return run

    def record(self) -> Event:
        """Write the event of the finished load test.

        Raise NotRecordedError if the endpoint changed meanwhile.
        """
        now = _read_instances(self.request, self.variant, self.artifact)
        workspace = self.request.workspace
        if now != self.instances:
            raise NotRecordedError(
                f"{self._full_name} was updated during the load test; the result is not recorded",
                remedy="run the load test again",
            )
        for level in self.levels:
            if level.watch.failure is not None:
                raise NotRecordedError(
                    f"cannot read the number of instances of {self._full_name} during the load test: "
                    f"{level.watch.failure}",
                    remedy="run the load test again",
                ) from level.watch.failure
        test = LoadTest(
            instance_type=now.instance_type,
            real_instances=workspace.spec.real_instances,
            levels=tuple(map(_recorded, self.levels)),
        )
        event = new_event(
            "load-tested", workspace, endpoints=(), note=_note(test), revision=self.revision
        ).model_copy(
            update={
                "endpoints": (self.request.endpoint,),
                "artifacts": (self.artifact,),
                "load_test": test,
            }
        )
        bucket = workspace.spec.artifact_bucket
        try:
            record_event(self.request.cloud, bucket, event)
        except ClientError as error:
            raise NotRecordedError(
                f"cannot record the load test of {self._full_name} in s3://{bucket}: {error}",
                remedy=f"use credentials that may write below {naming.EVENTS} there, or omit --record",
            ) from None
        return event

    def _counts(self) -> list[int]:
        endpoint = self.request.cloud.client("sagemaker").describe_endpoint(EndpointName=self._full_name)
        variants = {variant["VariantName"]: variant for variant in endpoint["ProductionVariants"]}
        return counts_of(variants[self.variant])

    @property
    def _full_name(self) -> str:
        return self.request.target.endpoint


def open_recorder(request: ModelRequest) -> LoadRecorder:
    """Return what records a load test of a request's target.

    Raise UsageError if several variants answer, and NotRecordedError if the endpoint serves another
    artifact than the lock names.
    """
    workspace, target = request.workspace, request.target
    endpoint = workspace.spec.endpoints[request.endpoint]
    answering = {variant.name: variant for variant in endpoint.variants if not variant.shadow}
    if target.variant is None and len(answering) > 1:
        raise CommandLineError(
            f"the endpoint {request.endpoint!r} has {len(answering)} variants, and --record measures one",
            remedy=f"select one, for example --variant {next(iter(answering))}",
        )
    variant = answering[target.variant or next(iter(answering))]
    artifact = TouchedArtifact(
        model=target.model.name,
        target=workspace.target_for(target.model.name, variant.instance) or "",
        digest=request.digest,
    )
    instances = _read_instances(request, variant.name, artifact)
    return LoadRecorder(request, variant.name, artifact, instances, revision_of(workspace))


def _read_instances(request: ModelRequest, variant_name: str, artifact: TouchedArtifact) -> ServingInstances:
    """Return what a variant runs; raise NotRecordedError if that is not the locked artifact."""
    workspace, full = request.workspace, request.target.endpoint
    deploy = f"run `tritonstack deploy {workspace.cli_arguments}` first, or omit --record"
    sagemaker = request.cloud.client("sagemaker")
    with explain_denied("sagemaker"):
        try:
            endpoint: dict[str, Any] = sagemaker.describe_endpoint(EndpointName=full)
        except ClientError as error:
            if "could not find" not in str(error).lower():
                raise
            raise NotRecordedError(f"{full} does not exist", remedy=deploy) from None
        if endpoint["EndpointStatus"] not in SERVING and not _is_scaled(endpoint):
            raise NotRecordedError(
                f"{full} is {endpoint['EndpointStatus']}; only load tests in service are recorded",
                remedy=f"wait for the update, for example with `tritonstack verify "
                f"{workspace.cli_arguments} --wait`",
            )
        config = sagemaker.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
        variants = {production["VariantName"]: production for production in config["ProductionVariants"]}
        running = {production["VariantName"] for production in endpoint["ProductionVariants"]}
        if variant_name not in variants.keys() & running:
            raise NotRecordedError(f"{full} has no variant {variant_name!r}", remedy=deploy)
        variant = variants[variant_name]
        model = variant.get("ModelName", "")
        if (name := request.target.component) is not None:
            component = sagemaker.describe_inference_component(InferenceComponentName=name)
            model = component["Specification"]["ModelName"]
        if not isinstance(workspace.spec.endpoints[request.endpoint], MultiModelEndpoint):
            url = sagemaker.describe_model(ModelName=model)["PrimaryContainer"]["ModelDataUrl"]
            if f"/{naming.artifact_prefix(artifact.model, artifact.digest)}/" not in url:
                raise NotRecordedError(
                    f"{full} serves {url}, and the lock names {artifact.model} "
                    f"({short_digest(artifact.digest)})",
                    remedy=deploy,
                )
    return ServingInstances(endpoint["EndpointConfigName"], model, variant["InstanceType"])


def _is_scaled(endpoint: Mapping[str, Any]) -> bool:
    """Return whether an update changes only the number of instances; others have a pending deployment."""
    return endpoint["EndpointStatus"] == "Updating" and "PendingDeploymentSummary" not in endpoint


def _recorded(level: _MeasuredLevel) -> RecordedLevel:
    run, counts = level.run, level.watch.counts
    latencies = run.percentiles_ms()
    return RecordedLevel(
        load=run.load,
        offered_per_s=level.rate,
        is_trace=level.is_trace,
        lowest_instances=min(counts),
        highest_instances=max(1, *counts),
        answered_per_s=round(run.answered_per_s, 3),
        answers=int(run.latencies.sum()),
        failed_percent=round(run.failed_share * 100, 4),
        p50_ms=_rounded(latencies.get(50.0)),
        p99_ms=_rounded(latencies.get(99.0)),
        steady=run.steady,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None or value != value else round(value, 3)  # noqa: PLR0124 - NaN


def _note(test: LoadTest) -> str:
    levels = "; ".join(
        f"{level.load}: {level.answered_per_s:.1f} answers per second"
        + (f", p99 {level.p99_ms:.1f} ms" if level.p99_ms is not None else "")
        for level in test.levels
    )
    lowest = min(level.lowest_instances for level in test.levels)
    highest = max(level.highest_instances for level in test.levels)
    counts = f"{highest}" if lowest == highest else f"{lowest} to {highest}"
    return f"on {counts} x {test.instance_type}{'' if test.real_instances else ' (local cloud)'}: {levels}"
