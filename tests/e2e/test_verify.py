"""Verification of a deploy and of everything that can be wrong with one, and the predictions of diff.

The model is tiny and built for real, twice. The tests of this file run in order and depend on each other.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC
from typing import Any

import numpy as np
import pytest

from tests.e2e.conftest import Site, tiny_site
from tests.projects import edit
from tritonstack.base import naming
from tritonstack.base.files import short_digest
from tritonstack.files.loading import load_workspace
from tritonstack.operate.shared.events import read_events

pytestmark = pytest.mark.soak

ENVIRONMENT = """\
name: local
account: "000000000000"
region: us-east-1
triton_release: "25.04"
removal: destroy
endpoints:
  search:
    kind: ensemble
    model: texts
    instance_type: ml.c7i.xlarge
    scaling: {min_instances: 1, max_instances: 2}
    alarms: {latency_p99_ms: 60000}
"""
ALARM = "tritonstack-local-search-server-errors"
AT_ONCE = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0},
        "TerminationWaitInSeconds": 0,
    }
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    here = tiny_site(tmp_path_factory.mktemp("verified"), ENVIRONMENT, texts="text")
    (here.project.root / ".gitignore").write_text(".tritonstack/\nnode_modules\n")
    here.git("init", "--quiet")
    yield here
    here.tritonstack("down")


def commit(site: Site, message: str) -> str:
    site.git("add", "--all")
    site.git("commit", "--quiet", "--message", message)
    return site.git("rev-parse", "HEAD").strip()


def kinds(site: Site) -> list[str]:
    return [event.kind for event in read_events(site.cloud, site.spec.artifact_bucket)]


def digest(site: Site) -> str:
    return load_workspace(site.project, "local").lock.record.models["texts"]["cpu"].digest


def test_deployed_environment_is_verified(site: Site) -> None:
    site.tritonstack("build", "local", "--no-publish")
    first = commit(site, "First")
    site.tritonstack("up", "--detach")
    assert "not deployed: the stack does not exist" in site.tritonstack("verify", "local", exit_code=1)
    site.tritonstack("deploy", "local", "--bootstrap")
    verdict = site.asked("verify", "local")
    assert (verdict["passed"], verdict["failures"], verdict["commit"]) == (True, [], first)
    assert {result["outcome"] for result in verdict["endpoints"][0]["smoke"]} == {"ok"}
    assert kinds(site) == ["deployed", "verified"]


def test_the_state_of_the_environment(site: Site) -> None:
    (environment,) = site.asked("status", "local")["environments"]
    (endpoint,) = environment["endpoints"]
    assert environment["deployed"]["commit"] == site.git("rev-parse", "HEAD").strip()
    assert endpoint["models"] == [
        {"model": "texts", "live": digest(site), "locked": digest(site), "unverified": None}
    ]
    assert (endpoint["drift"], endpoint["to_deploy"], endpoint["verdict"]["kind"]) == ([], [], "verified")
    assert endpoint["traffic"]["requests"] >= 2
    assert endpoint["traffic"]["server_errors"] == 0


def test_manually_changed_alarm_and_limits_are_found_with_read_permissions(site: Site) -> None:
    scaling, cloudwatch = site.cloud.client("application-autoscaling"), site.cloud.client("cloudwatch")
    target = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": "endpoint/tritonstack-local-search/variant/main",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    scaling.register_scalable_target(**target, MinCapacity=1, MaxCapacity=9)
    cloudwatch.disable_alarm_actions(AlarmNames=[ALARM])
    before = kinds(site)
    verdict = site.asked("verify", "local", "--no-smoke", "--no-record", exit_code=1)
    assert verdict["failures"] == [
        "search: scaling: main scales from 1 to 9, expected 1 to 2",
        f"search: alarms: {ALARM}: ActionsEnabled is False, expected True",
    ]
    assert kinds(site) == before
    scaling.register_scalable_target(**target, MinCapacity=1, MaxCapacity=2)
    cloudwatch.enable_alarm_actions(AlarmNames=[ALARM])


def test_diff_shows_an_undeployed_commit(site: Site) -> None:
    before = digest(site)
    weights = site.project.models_dir / "weights"
    edit(weights / "config.json", '"layer_norm_eps": 1e-12', '"layer_norm_eps": 1.0')
    edit(site.project.environment_file("local"), "latency_p99_ms: 60000", "latency_p99_ms: 50000")
    site.tritonstack("build", "local", "--no-publish")
    commit(site, "Second")
    assert digest(site) != before
    outlook = site.asked("diff", "local")
    (model,) = outlook["models"]
    assert (model["before"], model["after"]) == (before, digest(site))
    assert model["figures_before"]["min_cosine"] > 0.99
    verdict = site.asked("verify", "local", "--no-smoke", exit_code=1)
    assert verdict["failures"][0].startswith(
        "search: stack: not deployed: rollout of endpoint tritonstack-local-search: main: artifact"
    )
    (environment,) = site.asked("status", "local")["environments"]
    assert environment["endpoints"][0]["to_deploy"][0] == (
        f"texts is {short_digest(before)}, lock expects {short_digest(digest(site))}"
    )


def test_diff_and_cloudformation_agree_on_replacements(site: Site) -> None:
    outlook = site.asked("diff", "local")
    name = naming.endpoint_stack_name(site.spec.base, "search")
    (stack,) = [stack for stack in outlook["stacks"] if stack["stack"] == name]
    said = {item["logical_id"] for item in stack["resources"] if item["action"] == "replaced"}
    folder = site.project.root / "cdk.out"
    site.cdk("synth", "--quiet", "--output", str(folder))
    client = site.cloud.client("cloudformation")
    client.create_change_set(
        StackName=name,
        ChangeSetName="foretold",
        TemplateBody=(folder / f"{name}.template.json").read_text(),
        Capabilities=["CAPABILITY_IAM"],
    )
    client.get_waiter("change_set_create_complete").wait(
        StackName=name, ChangeSetName="foretold", WaiterConfig={"Delay": 1}
    )
    changes = client.describe_change_set(StackName=name, ChangeSetName="foretold")["Changes"]
    client.delete_change_set(StackName=name, ChangeSetName="foretold")
    replaced = {
        change["ResourceChange"]["LogicalResourceId"]
        for change in changes
        if change["ResourceChange"].get("Replacement") == "True"
    }
    assert said == replaced
    assert len(said) == 2
    assert len(changes) > 2


def test_rolled_back_endpoint_fails_configuration_and_answer_checks(
    site: Site,
) -> None:
    sagemaker = site.cloud.client("sagemaker")
    old = active(site)
    container = sagemaker.describe_model(ModelName=old["ModelName"])
    site.tritonstack("deploy", "local")
    assert site.asked("verify", "local")["passed"]
    sagemaker.create_model(
        ModelName="before",
        PrimaryContainer=container["PrimaryContainer"],
        ExecutionRoleArn=container["ExecutionRoleArn"],
        EnableNetworkIsolation=True,
    )
    sagemaker.create_endpoint_config(
        EndpointConfigName="before", ProductionVariants=[{**old, "ModelName": "before"}]
    )
    name = site.spec.endpoint_name("search")
    sagemaker.update_endpoint(EndpointName=name, EndpointConfigName="before", DeploymentConfig=AT_ONCE)
    while sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"] != "InService":
        time.sleep(0.5)
    output = site.tritonstack("verify", "local", exit_code=1)
    for words in (
        "✗ endpoint",
        "it uses configuration before instead of tritonstack-local-endpoint-s",
        "main: ModelDataUrl is s3://",
        "✗ answers        0 of ",
        "✓ stack",
        "✓ alarms",
    ):
        assert words in output, output
    last = read_events(site.cloud, site.spec.artifact_bucket)[-1]
    assert (last.kind, last.endpoints) == ("refuted", ("search",))
    assert "search: endpoint: it uses configuration before" in last.note
    assert kinds(site) == ["deployed", "verified", "refuted", "deployed", "verified", "refuted"]


def test_the_report_shows_the_rollouts_and_events_of_the_environment(site: Site) -> None:
    file = site.project.root / "report.html"
    site.tritonstack("report", "local", "--no-diff", "--output", str(file))
    client = site.cloud.client("cloudformation")
    stack = naming.endpoint_stack_name(site.spec.base, "search")
    updates = [
        event
        for event in client.describe_stack_events(StackName=stack)["StackEvents"]
        if event["ResourceType"] == "AWS::SageMaker::Endpoint"
        and event["ResourceStatus"] == "UPDATE_IN_PROGRESS"
    ]
    page = file.read_text()
    films = re.findall(
        r"<article><h3>([^<]*)</h3><p><span[^>]*>(.*?)</span>(.*?)</p>(.*?)</article>", page, re.DOTALL
    )
    shown = [(name, outcome) for name, outcome, *_ in films]
    assert shown == [("tritonstack-local-search (local)", "completed")] * len(updates), page
    (*_, facts, film), *_ = films
    assert f"started {updates[0]['Timestamp'].astimezone(UTC):%Y-%m-%d %H:%M}" in facts
    assert "server-errors" in film
    timeline = page[page.index('<section id="timeline"') :]
    assert all(f">{kind}</span>" in timeline for kind in ("deployed", "verified")), timeline


def test_rollback_now_serves_the_earlier_artifact_at_once(site: Site) -> None:
    """The endpoint runs the second artifact again; lock, stack, and verdict follow."""
    sagemaker, name = site.cloud.client("sagemaker"), site.spec.endpoint_name("search")
    earlier, first = answers(site), model_data(site, active(site))
    configs = [
        item["EndpointConfigName"]
        for item in sagemaker.list_endpoint_configs(SortOrder="Ascending")["EndpointConfigs"]
    ]
    retained, second, _ = configs
    sagemaker.update_endpoint(EndpointName=name, EndpointConfigName=second, DeploymentConfig=AT_ONCE)
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName=name, WaiterConfig={"Delay": 1})
    assert digest(site) in model_data(site, active(site))
    assert not np.allclose(answers(site), earlier, atol=1e-2)
    output = site.tritonstack("rollback", "local", "search", "--now")
    assert f"switching {name} to {retained}" in output
    assert digest(site) in first
    assert model_data(site, active(site)) == first
    np.testing.assert_allclose(answers(site), earlier, atol=1e-4)
    assert kinds(site)[-3:] == ["rolled-back", "deployed", "verified"]
    assert site.asked("verify", "local")["passed"]
    commit(site, "Roll back")
    served = sagemaker.describe_endpoint(EndpointName=name)
    site.tritonstack("deploy", "local")
    now = sagemaker.describe_endpoint(EndpointName=name)
    assert now["EndpointConfigName"] == served["EndpointConfigName"]
    assert now["LastModifiedTime"] == served["LastModifiedTime"]
    assert site.asked("verify", "local")["passed"]


def answers(site: Site) -> np.ndarray:
    answer = site.asked("invoke", "local", "search", "A man is eating food.")
    return np.asarray(answer["outputs"]["embedding"])


def model_data(site: Site, variant: dict[str, Any]) -> str:
    model = site.cloud.client("sagemaker").describe_model(ModelName=variant["ModelName"])
    return str(model["PrimaryContainer"]["ModelDataUrl"])


def active(site: Site) -> dict[str, Any]:
    sagemaker = site.cloud.client("sagemaker")
    name = sagemaker.describe_endpoint(EndpointName=site.spec.endpoint_name("search"))["EndpointConfigName"]
    variant: dict[str, Any] = sagemaker.describe_endpoint_config(EndpointConfigName=name)[
        "ProductionVariants"
    ][0]
    return variant
