"""Endpoints of a local cloud, deployed from the project's own templates, read through boto3.

Every manual change is found, and reverted for the next test.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from packages.local_cloud.tests.conftest import REGION, SHARED
from packages.local_cloud.tests.sagemaker.fakes import tarball
from stacks.environment import add_environment
from tests.credentials import variables_of
from tests.projects import write_project
from tests.stacks.assemblies import lock_everything, new_app
from tritonstack.base import naming
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.events import Event
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.operate.deploy.deploy import record_deployment
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.events import new_event, record_event
from tritonstack.operate.shared.stacks import StackState
from tritonstack.operate.status.status import EndpointStatus, Machines, ServedDigest, environment_status
from tritonstack.operate.synth.assembly import Assembly
from tritonstack.operate.verify.live import DeployedStack, deployed_stack
from tritonstack.operate.verify.verdicts import EndpointVerdict, check_endpoints, check_shared_stacks

ACCOUNT = "600000000000"
ENVIRONMENT = f"""\
name: dev
account: "{ACCOUNT}"
region: {REGION}
triton_release: "25.04"
builds: {{enabled: false}}
endpoints:
  search:
    kind: ensemble
    model: minilm
    instance_type: ml.c7i.xlarge
    scaling:
      min_instances: 1
      max_instances: 3
      schedules:
        night: {{at: "22:00", min: 1, max: 2}}
    data_capture: {{sampling_percent: 5}}
  compared:
    kind: ensemble
    model: minilm
    instance_type: ml.c7i.xlarge
    challenger: {{instance_type: ml.m7i.large, share: 0.25}}
  many:
    kind: multi-model
    models: [minilm]
    instance_type: ml.c7i.xlarge
"""
NAMES = ["search", "compared", "many"]
SEARCH = "tritonstack-dev-search"
TARGET = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": f"endpoint/{SEARCH}/variant/main",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}
ALARM = f"{SEARCH}-server-errors"


@dataclass
class Deployed:
    """A deployed environment."""

    cloud: Cloud
    workspace: Workspace
    assembly: Assembly

    def client(self, service: str) -> Any:
        return self.cloud.client(service)

    def verdict(self, name: str = "search") -> EndpointVerdict:
        (verdict,) = check_endpoints(self.cloud, self.workspace, self.assembly, [name])
        return verdict

    def status(self, name: str = "search") -> EndpointStatus:
        # CloudWatch is asked up to a whole second: what came in the present one counts in the next.
        soon = datetime.now(UTC) + timedelta(seconds=1)
        endpoints = environment_status(self.cloud, self.workspace, now=soon).endpoints
        return next(endpoint for endpoint in endpoints if endpoint.name == name)

    @property
    def bucket(self) -> str:
        return self.workspace.spec.artifact_bucket


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    SHARED.parent = SHARED.parent or tmp_path_factory.mktemp("clouds")
    cloud = Cloud(ACCOUNT, REGION, variables_of(SHARED.get().endpoint_url, ACCOUNT, region=REGION))
    archive = tarball({"minilm/config.pbtxt": 'platform: "ensemble"\n', "minilm/1/keep": ""})
    workspace = locked(tmp_path_factory, size=len(archive))
    create_foundation(cloud, workspace, archive)
    folder = tmp_path_factory.mktemp("assembly")
    app = new_app(folder)
    add_environment(app, workspace=workspace)
    app.synth()
    standing = Deployed(cloud, workspace, Assembly(folder))
    stacks = [naming.endpoint_stack_name(workspace.spec.base, name) for name in NAMES]
    create(standing, stacks)
    yield standing
    # Others in this process play AWS with moto, too, and for another account.
    SHARED.end()


def locked(tmp_path_factory: pytest.TempPathFactory, *, size: int) -> Workspace:
    project = write_project(tmp_path_factory.mktemp("project"))
    project.environment_file("dev").write_text(ENVIRONMENT)
    workspace = lock_everything(project, "dev")
    lock = workspace.lock.record
    entry = lock.models["minilm"]["cpu"].model_copy(update={"archive_bytes": size})
    held = lock.model_copy(update={"models": {"minilm": {"cpu": entry}}})
    write_lock(workspace.lock.file, held)
    record = dataclasses.replace(workspace.lock, record=held)
    return dataclasses.replace(workspace, lock=record)


def create_foundation(cloud: Cloud, workspace: Workspace, archive: bytes) -> None:
    """Create what the foundation would have created, and the artifact."""
    spec, s3 = workspace.spec, cloud.client("s3")
    digest = workspace.lock.record.models["minilm"]["cpu"].digest
    for bucket in (spec.artifact_bucket, spec.data_bucket):
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    places = (
        f"{naming.artifact_prefix('minilm', digest)}/model.tar.gz",
        naming.multi_model_prefix(spec.endpoint_name("many")) + naming.target_model("minilm", digest),
    )
    for key in places:
        s3.put_object(Bucket=spec.artifact_bucket, Key=key, Body=archive, Metadata={"sha256": digest})
    ssm = cloud.client("ssm")
    key_arn = cloud.client("kms").create_key()["KeyMetadata"]["Arn"]
    parameters = {naming.parameter_name(spec.base, naming.KEY_PARAMETER): key_arn}
    for name, value in {**parameters, spec.bootstrap.version_parameter: "33"}.items():
        ssm.put_parameter(Name=name, Value=value, Type="String")


def create(standing: Deployed, stacks: list[str]) -> None:
    client = standing.client("cloudformation")
    for stack in stacks:
        client.create_stack(
            StackName=stack,
            TemplateBody=(standing.assembly.folder / f"{stack}.template.json").read_text(),
            Capabilities=["CAPABILITY_IAM"],
        )
    for stack in stacks:
        client.get_waiter("stack_create_complete").wait(StackName=stack, WaiterConfig={"Delay": 0})


@pytest.mark.parametrize("name", NAMES)
def test_a_fresh_deployment_matches_its_template(deployed, name):
    verdict = deployed.verdict(name)
    assert verdict.failures == []
    assert sum(check.compared for check in verdict.checks) > 100
    assert sum(check.skipped for check in verdict.checks) == 0


def test_stacks_that_were_never_deployed_are_reported(deployed):
    checks = check_shared_stacks(deployed.cloud, deployed.workspace, deployed.assembly)
    assert [check.aspect for check in checks] == ["tritonstack-dev-foundation", "tritonstack-dev-monitoring"]
    assert all("does not exist" in check.failures[0] for check in checks)


POLICY = {
    "TargetValue": 5.0,
    "PredefinedMetricSpecification": {
        "PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    },
}
ZERO = {"MinCapacity": 0, "MaxCapacity": 0}
SCALED_BY_HAND: tuple[tuple[str, dict[str, Any], str, dict[str, Any]], ...] = (
    (
        "register_scalable_target",
        {"MinCapacity": 1, "MaxCapacity": 30},
        "register_scalable_target",
        {"MinCapacity": 1, "MaxCapacity": 3},
    ),
    (
        "put_scaling_policy",
        {"PolicyType": "TargetTrackingScaling", "TargetTrackingScalingPolicyConfiguration": POLICY},
        "delete_scaling_policy",
        {"PolicyName": "by-hand"},
    ),
    (
        "put_scheduled_action",
        {"Schedule": "cron(0 3 * * ? *)", "ScalableTargetAction": ZERO},
        "delete_scheduled_action",
        {"ScheduledActionName": "by-hand"},
    ),
)
"""Changes of scaling and what reverts them."""


@contextmanager
def changed_by_hand(deployed: Deployed) -> Iterator[None]:
    """With an alarm, the scaling, the model, and its archive changed.

    The model is deleted and created again with its name: the endpoint keeps running, its next instance fails.
    """
    cloudwatch, scaling = deployed.client("cloudwatch"), deployed.client("application-autoscaling")
    sagemaker, s3 = deployed.client("sagemaker"), deployed.client("s3")
    (alarm,) = cloudwatch.describe_alarms(AlarmNames=[ALARM])["MetricAlarms"]
    settings = cloudwatch.meta.service_model.operation_model("PutMetricAlarm").input_shape.members
    alarm = {name: value for name, value in alarm.items() if name in settings and name != "Metrics"}
    _, variant = configuration(deployed)
    described = sagemaker.describe_model(ModelName=variant["ModelName"])
    parts = ("ModelName", "PrimaryContainer", "ExecutionRoleArn", "EnableNetworkIsolation")
    model = {name: described[name] for name in parts}
    container = model["PrimaryContainer"]
    url, environment = container["ModelDataUrl"].replace("ab" * 32, "cd" * 32), container["Environment"]
    other = {**container, "ModelDataUrl": url, "Environment": {**environment, "OWN": "1"}}
    archive = {
        "Bucket": deployed.bucket,
        "Key": f"{naming.artifact_prefix('minilm', 'ab' * 32)}/model.tar.gz",
    }
    body = s3.get_object(**archive)["Body"].read()

    cloudwatch.put_metric_alarm(**{**alarm, "Threshold": 999, "ActionsEnabled": False})
    for change, parameters, _, reverted in SCALED_BY_HAND:
        getattr(scaling, change)(**TARGET, **{**reverted, **parameters})
    sagemaker.delete_model(ModelName=model["ModelName"])
    sagemaker.create_model(**{**model, "PrimaryContainer": other})
    s3.put_object(**archive, Body=body)
    yield
    cloudwatch.put_metric_alarm(**alarm)
    for _, _, revert, parameters in SCALED_BY_HAND:
        getattr(scaling, revert)(**TARGET, **parameters)
    sagemaker.delete_model(ModelName=model["ModelName"])
    sagemaker.create_model(**model)
    s3.put_object(**archive, Body=body, Metadata={"sha256": "ab" * 32})


def configuration(deployed: Deployed) -> tuple[str, dict[str, Any]]:
    """Return the name and the first variant of the configuration that serves."""
    sagemaker = deployed.client("sagemaker")
    config = sagemaker.describe_endpoint(EndpointName=SEARCH)["EndpointConfigName"]
    variants = sagemaker.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    return config, variants[0]


CHANGED = (
    f"alarms: {ALARM}: Threshold is 999",
    f"alarms: {ALARM}: ActionsEnabled is False, expected True",
    "scaling: main scales from 1 to 30, expected 1 to 3 or 1 to 2",
    "scaling: policy[main: by-hand]",
    "scaling: main: schedule[by-hand]",
    "models: main: Environment.OWN",
    "models: main: ModelDataUrl is s3://",
    "artifacts: minilm: the object at s3://",
)


def test_manual_changes_are_found(deployed):
    with changed_by_hand(deployed):
        failures = deployed.verdict().failures
    missed = [start for start in CHANGED if not any(failure.startswith(start) for failure in failures)]
    assert missed == [], failures
    assert deployed.verdict().failures == []


def test_a_model_missing_from_its_prefix_is_found(deployed):
    s3, shelf = (
        deployed.client("s3"),
        naming.multi_model_prefix(deployed.workspace.spec.endpoint_name("many")),
    )
    key = shelf + naming.target_model("minilm", "ab" * 32)
    head = s3.get_object(Bucket=deployed.bucket, Key=key)
    body = head["Body"].read()
    s3.delete_object(Bucket=deployed.bucket, Key=key)
    (failure,) = deployed.verdict("many").failures
    assert failure.endswith(f"s3://{deployed.bucket}/{key}")
    s3.put_object(Bucket=deployed.bucket, Key=key, Body=body, Metadata=head["Metadata"])
    assert deployed.verdict("many").failures == []


def test_manually_changed_model_names_are_found(deployed):
    ssm, name = deployed.client("ssm"), "/tritonstack-dev/targets/many/0"
    value = ssm.get_parameter(Name=name)["Parameter"]["Value"]
    ssm.put_parameter(Name=name, Value="{}", Overwrite=True)
    (failure,) = deployed.verdict("many").failures
    assert failure.startswith("names: ")
    assert f"{name} differ" in failure
    ssm.delete_parameter(Name=name)
    (failure,) = deployed.verdict("many").failures
    assert name in failure
    assert failure.endswith("does not exist")
    ssm.put_parameter(Name=name, Value=value, Type="String")
    assert deployed.verdict("many").failures == []


def test_the_state_of_an_endpoint(deployed):
    status = deployed.status()
    assert (status.status, status.drift, status.firing_alarms) == ("InService", (), ())
    assert status.models == (ServedDigest("minilm", "ab" * 32, "ab" * 32),)
    assert status.machines == (Machines("main", 1, 1, 3),)
    assert len(status.to_deploy) == 1
    assert deployed.status("many").models[0].live == "ab" * 32


def test_deployments_and_verdicts_are_recorded_per_endpoint(deployed):
    s3 = deployed.client("s3")
    written = [record_deployment(deployed.cloud, deployed.workspace, ["search", "many"])]
    written.append(new_event("refuted", deployed.workspace, endpoints=["search"], note="one fires"))
    record_event(deployed.cloud, deployed.bucket, written[-1])
    status = deployed.status()
    assert (status.deployed, status.verdict) == tuple(written)
    assert (deployed.status("many").verdict, deployed.status("compared").deployed) == (None, None)
    for event in written:
        assert isinstance(event, Event)
        s3.delete_object(Bucket=deployed.bucket, Key=event.key)


def test_a_stuck_stack_is_reported_although_its_endpoint_serves(deployed, monkeypatch):
    look = deployed_stack

    def stuck(cloud: Cloud, name: str) -> DeployedStack | None:
        stack = look(cloud, name)
        return stack and dataclasses.replace(
            stack, state=StackState(name, "UPDATE_ROLLBACK_FAILED", "no rights")
        )

    monkeypatch.setattr("tritonstack.operate.status.status.deployed_stack", stuck)
    (drift,) = deployed.status().drift
    assert drift.startswith("stack: ")
    assert drift.endswith("_FAILED: no rights")
