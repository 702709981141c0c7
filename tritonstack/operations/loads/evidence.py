"""Record load tests as events of an environment, for the gates of a promotion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.base.errors import TritonstackError
from tritonstack.base.files import short_digest
from tritonstack.operations.aws import Cloud, explain_denied
from tritonstack.operations.events import new_event, record_event
from tritonstack.operations.loads.runs import LoadRun
from tritonstack.operations.revisions import Revision, revision_of
from tritonstack.operations.running import SERVING
from tritonstack.project.workspace import Workspace
from tritonstack.records.events import Event, TouchedArtifact
from tritonstack.records.load_tests import LoadTest, RecordedLevel

_P99 = 99.0


class LoadTestNotRecordedError(TritonstackError):
    """A load test cannot count for promotion; no event was written."""

    code = "TS520"


@dataclass(frozen=True)
class MeasuredArtifact:
    """An artifact and what serves it."""

    endpoint: str
    """The endpoint, by its name in the environment file."""
    variant: str
    component: str | None
    touched: TouchedArtifact
    multi_model: bool
    """Whether each request names the artifact; otherwise the endpoint's model does."""


@dataclass(frozen=True)
class ServingInstances:
    """The instances of a variant, as SageMaker reports them."""

    config: str
    model: str
    instance_type: str
    count: int


@dataclass(frozen=True)
class LoadRecorder:
    """Records the load test that follows; it has checked that the endpoint serves the artifact."""

    cloud: Cloud
    workspace: Workspace
    artifact: MeasuredArtifact
    instances: ServingInstances
    revision: Revision

    @classmethod
    def open(cls, cloud: Cloud, workspace: Workspace, artifact: MeasuredArtifact) -> LoadRecorder:
        """Check what the endpoint serves; raise LoadTestNotRecordedError if it is another artifact."""
        instances = _read_instances(cloud, workspace, artifact)
        return cls(cloud, workspace, artifact, instances, revision_of(workspace))

    def record(self, runs: Sequence[LoadRun], rates: Sequence[float | None]) -> Event:
        """Write the event of the finished load test; `rates` are the requests per second due in each run.

        Raise LoadTestNotRecordedError if the endpoint changed meanwhile.
        """
        now = _read_instances(self.cloud, self.workspace, self.artifact)
        if replace(now, count=self.instances.count) != self.instances:
            raise LoadTestNotRecordedError(
                f"{self._full_name} was updated during the load test; the result is not recorded",
                remedy="run the load test again",
            )
        test = LoadTest(
            instance_type=now.instance_type,
            instances=max(1, now.count, self.instances.count),
            levels=tuple(_level(run, rate) for run, rate in zip(runs, rates, strict=True)),
        )
        event = new_event(
            "load-tested", self.workspace, endpoints=(), note=_note(test), revision=self.revision
        ).model_copy(
            update={
                "endpoints": (self.artifact.endpoint,),
                "artifacts": (self.artifact.touched,),
                "load_test": test,
            }
        )
        bucket = self.workspace.spec.artifact_bucket
        try:
            record_event(self.cloud, bucket, event)
        except ClientError as error:
            raise LoadTestNotRecordedError(
                f"cannot record the load test of {self._full_name} in s3://{bucket}: {error}",
                remedy=f"use credentials that may write below {naming.EVENTS} there, or omit --record",
            ) from None
        return event

    @property
    def _full_name(self) -> str:
        return self.workspace.spec.endpoint_name(self.artifact.endpoint)


def _read_instances(cloud: Cloud, workspace: Workspace, artifact: MeasuredArtifact) -> ServingInstances:
    """Return the instances of a variant that serves an artifact now."""
    full, deploy = workspace.spec.endpoint_name(artifact.endpoint), _deploy(workspace)
    sagemaker = cloud.client("sagemaker")
    with explain_denied("sagemaker"):
        try:
            found: dict[str, Any] = sagemaker.describe_endpoint(EndpointName=full)
        except ClientError as error:
            if "could not find" not in str(error).lower():
                raise
            raise LoadTestNotRecordedError(f"{full} does not exist", remedy=deploy) from None
        if found["EndpointStatus"] not in SERVING:
            raise LoadTestNotRecordedError(
                f"{full} is {found['EndpointStatus']}; only load tests in service are recorded",
                remedy=f"wait for the update, for example with `tritonstack verify "
                f"{workspace.cli_arguments} --wait`",
            )
        config = sagemaker.describe_endpoint_config(EndpointConfigName=found["EndpointConfigName"])
        variants = {one["VariantName"]: one for one in config["ProductionVariants"]}
        counts = {one["VariantName"]: one["CurrentInstanceCount"] for one in found["ProductionVariants"]}
        if artifact.variant not in variants or artifact.variant not in counts:
            raise LoadTestNotRecordedError(f"{full} has no variant {artifact.variant!r}", remedy=deploy)
        variant = variants[artifact.variant]
        model = variant.get("ModelName", "")
        if artifact.component is not None:
            component = sagemaker.describe_inference_component(InferenceComponentName=artifact.component)
            model = component["Specification"]["ModelName"]
        if not artifact.multi_model:
            url = sagemaker.describe_model(ModelName=model)["PrimaryContainer"]["ModelDataUrl"]
            _require_artifact(url, full, artifact.touched, deploy)
    return ServingInstances(
        found["EndpointConfigName"], model, variant["InstanceType"], counts[artifact.variant]
    )


def _require_artifact(url: str, endpoint: str, locked: TouchedArtifact, deploy: str) -> None:
    if f"/{naming.artifact_prefix(locked.model, locked.digest)}/" not in url:
        raise LoadTestNotRecordedError(
            f"{endpoint} serves {url}, and the lock names {locked.model} ({short_digest(locked.digest)})",
            remedy=deploy,
        )


def _deploy(workspace: Workspace) -> str:
    return f"run `tritonstack deploy {workspace.cli_arguments}` first, or omit --record"


def _level(run: LoadRun, rate: float | None) -> RecordedLevel:
    latencies = run.percentiles_ms()
    return RecordedLevel(
        load=run.load,
        offered_per_s=rate,
        answered_per_s=round(run.answered_per_s, 3),
        answers=int(run.latencies.sum()),
        failed_percent=round(run.failed_share * 100, 4),
        p50_ms=_rounded(latencies.get(50.0)),
        p99_ms=_rounded(latencies.get(_P99)),
        steady=run.steady,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None or value != value else round(value, 3)  # noqa: PLR0124 - NaN


def _note(test: LoadTest) -> str:
    levels = "; ".join(
        f"{one.load}: {one.answered_per_s:.1f} answers per second"
        + (f", p99 {one.p99_ms:.1f} ms" if one.p99_ms is not None else "")
        for one in test.levels
    )
    return f"on {test.instances} x {test.instance_type}: {levels}"
