"""`tritonstack bench --record`: what counts as evidence for a promotion, with moto's SageMaker and S3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.client.light.wire import reply
from tests.operate.invoke.invoked_site import PLAIN, Site
from tests.operate.verify.smoke_environment import DIGESTS
from tests.projects import edit
from tritonstack import Session
from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack.base.naming import artifact_prefix
from tritonstack.cli.main import run
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.events import Event, TouchedArtifact
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.events import read_events
from tritonstack_sizing import LoadOptions, bench, plan_bench

ROLE = "arn:aws:iam::123456789012:role/any"
LOADS = LoadOptions(rates=(40, 80), seconds=1, is_even=True)


@dataclass
class Recorded:
    """An endpoint under load, and what its environment has recorded."""

    site: Site
    cloud: Cloud
    bucket: str

    def bench(self, **options: Any) -> Any:
        session = Session(self.site.project)
        plan = plan_bench(session, "dev", "search", ["a"], **{"options": LOADS, **options})
        return bench(session, plan, record=True)

    def events(self) -> list[Event]:
        return read_events(self.cloud, self.bucket, kinds=["load-tested"])


def serve(digest: str, *, config: str = "config", instance: str = "ml.m5.xlarge", count: int = 2) -> None:
    """Create the endpoint or update it."""
    sagemaker = boto3.client("sagemaker", region_name="us-east-1")
    url = f"s3://artifacts/{artifact_prefix('minilm', digest)}/model.tar.gz"
    sagemaker.create_model(
        ModelName=f"model-{config}",
        ExecutionRoleArn=ROLE,
        PrimaryContainer={"Image": "triton", "ModelDataUrl": url},
    )
    variant = {
        "VariantName": "main",
        "ModelName": f"model-{config}",
        "InstanceType": instance,
        "InitialInstanceCount": count,
    }
    sagemaker.create_endpoint_config(EndpointConfigName=config, ProductionVariants=[variant])
    name = {"EndpointName": "tritonstack-dev-search", "EndpointConfigName": config}
    if sagemaker.list_endpoints()["Endpoints"]:  # moto has no UpdateEndpoint
        sagemaker.delete_endpoint(EndpointName=name["EndpointName"])
    sagemaker.create_endpoint(**name)


@pytest.fixture
def recorded(site: Site, served: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("GITHUB_ACTOR", "ann")
    spec = load_workspace(site.project, "dev").spec
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=spec.artifact_bucket)

    def start(answer: Callable[[Any], object] = lambda _: reply()) -> Recorded:
        served(answer)
        return Recorded(site, Session(site.project).cloud(spec), spec.artifact_bucket)

    return start


def test_levels_are_recorded_with_what_served_them(recorded: Any) -> None:
    site = recorded()
    serve(DIGESTS["minilm"], instance="ml.m5.large")
    result = site.bench()
    (event,) = site.events()
    assert result.recorded == event.key
    assert (event.by, event.endpoints) == ("ann", ("search",))
    assert event.artifacts == (TouchedArtifact(model="minilm", target="cpu", digest=DIGESTS["minilm"]),)
    assert event.load_test is not None
    # What runs counts, not what the file says.
    assert (event.load_test.instance_type, event.load_test.real_instances) == ("ml.m5.large", True)
    levels = event.load_test.levels
    assert [(level.lowest_instances, level.highest_instances) for level in levels] == [(2, 2)] * 2
    assert not any(level.is_trace for level in levels)
    assert [(level.offered_per_s, level.answers, level.p99_ms) for level in levels] == [
        (40, 40, None),
        (80, 80, None),
    ]
    assert event.note.startswith("on 2 x ml.m5.large: ")


def test_nothing_is_recorded_without_the_option(recorded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    site = recorded()
    serve(DIGESTS["minilm"])
    command = ["--project", str(site.site.root), "bench", "dev", "search", "a", "--duration", "1", "--yes"]
    assert run(command) == 0
    assert site.events() == []
    assert run([*command, "--record"]) == 0
    (event,) = site.events()
    assert f"recorded as s3://{site.bucket}/{event.key}" in capsys.readouterr().err


def test_another_artifact_is_rejected_before_anything_is_sent(recorded: Any) -> None:
    sent: list[object] = []
    site = recorded(lambda request: sent.append(request) or reply())
    with pytest.raises(TritonstackError, match="tritonstack-dev-search") as caught:
        site.bench()
    assert caught.value.code == "TS513"
    serve("ef" * 32)
    with pytest.raises(TritonstackError, match=r"s3://.* minilm \(abababababab\)"):
        site.bench()
    assert sent == []
    assert site.events() == []


def test_an_update_during_the_load_is_not_recorded(recorded: Any) -> None:
    updated: list[None] = []

    def answer(_: Any) -> object:
        if not updated:
            updated.append(None)
            serve(DIGESTS["minilm"], config="later")
        return reply()

    site = recorded(answer)
    serve(DIGESTS["minilm"])
    with pytest.raises(TritonstackError, match="was updated"):
        site.bench()
    assert updated
    assert site.events() == []


def scale(count: int) -> None:
    boto3.client("sagemaker", region_name="us-east-1").update_endpoint_weights_and_capacities(
        EndpointName="tritonstack-dev-search",
        DesiredWeightsAndCapacities=[{"VariantName": "main", "DesiredInstanceCount": count}],
    )


def test_scaling_counts_for_the_level_in_which_it_happens(recorded: Any) -> None:
    sent: list[None] = []

    def answer(_: Any) -> object:
        sent.append(None)
        if len(sent) == 60:  # of 40 and 80
            scale(5)
        return reply()

    site = recorded(answer)
    serve(DIGESTS["minilm"])
    site.bench()
    (event,) = site.events()
    assert event.load_test is not None
    levels = event.load_test.levels
    assert [(level.lowest_instances, level.highest_instances) for level in levels] == [(2, 2), (2, 5)]
    assert event.note.startswith("on 2 to 5 x ")


def test_a_trace_is_marked(recorded: Any, tmp_path: Path) -> None:
    site = recorded()
    serve(DIGESTS["minilm"])
    trace = tmp_path / "day.csv"
    trace.write_text("at\n0.1\n0.2\n0.9\n1.0\n")
    site.bench(options=LoadOptions(trace=trace))
    (event,) = site.events()
    assert event.load_test is not None
    (level,) = event.load_test.levels
    assert (level.is_trace, level.offered_per_s) == (True, 4.0)


def test_one_of_several_variants_is_required(recorded: Any) -> None:
    site = recorded()
    edit(
        site.site.project.environment_file("dev"),
        PLAIN,
        PLAIN.replace("}", ", challenger: {model: other, share: 0.5}}"),
    )
    with pytest.raises(UsageError, match="2 variants") as caught:
        site.bench()
    assert "--variant main" in str(caught.value.remedy)
