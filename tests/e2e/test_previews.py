"""Temporary environments on the local cloud: deployed beside another, killed during destruction, audited, and
reaped. The tests of this file run in order and depend on each other.

The cloud's own inventory is the witness of what `audit` says.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import Site, tiny_site
from tests.projects import edit
from tritonstack.operate.shared.stacks import environment_stacks

pytestmark = pytest.mark.soak

ENVIRONMENT = """\
name: local
account: "000000000000"
region: us-east-1
triton_release: "25.04"
removal: destroy
endpoints:
  search: {kind: ensemble, model: texts, instance_type: ml.c7i.xlarge}
"""

TEMPLATE = """\
template:
  locks: local
  purpose: a run of the tests
  longest: 4h
  parameters: {most: 1}
name: ${name}
account: "000000000000"
region: us-east-1
triton_release: "25.04"
removal: destroy
bootstrap_qualifier: runs
alarm_emails: [somebody@example.com]
network: {create: {}}
builds: {enabled: true}
endpoints:
  search:
    kind: ensemble
    model: texts
    instance_type: ml.c7i.xlarge
    scaling: {min_instances: 1, max_instances: "${most}"}
"""

BASE = "tritonstack-run-1"
MOST_KILLS = 12
BEFORE: list[dict[str, Any]] = []
"""What the cloud held before the first instance."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("previews")
    here = tiny_site(root, ENVIRONMENT, texts="text")
    (root / "containers" / "builder").mkdir(parents=True)
    (root / "containers" / "builder" / "Dockerfile").write_text("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n")
    here.project.template_file("test").write_text(TEMPLATE)
    yield here
    here.tritonstack("down")


def held(site: Site) -> list[dict[str, Any]]:
    """Return the cloud's own resources that were not there before."""
    return [item for item in site.inventory() if item not in BEFORE]


def report(site: Site, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    return next(iter(site.asked("audit", *arguments, exit_code=exit_code).values()))


def test_instance_and_the_environment_of_its_lock_coexist(site: Site) -> None:
    site.tritonstack("build", "local", "--no-publish")
    site.tritonstack("up", "--detach")
    site.tritonstack("deploy", "local", "--bootstrap")
    BEFORE.extend(site.inventory())
    instance = ("test", "--name", "run-1", "--ttl", "1h", "--owner", "ann[bot]")
    rejected = site.tritonstack("deploy", *instance, exit_code=1)
    assert "--qualifier runs --toolkit-stack-name CDKToolkit-runs" in rejected
    site.project.artifacts_dir.unlink()  # what it runs can come from the other's bucket alone
    output = site.tritonstack("deploy", *instance, "--bootstrap")
    BEFORE.extend(item for item in held(site) if re.search(r"[-/]runs\b", json.dumps(item)))
    assert "endpoint tritonstack-run-1-search is InService" in output
    assert "run-1 belongs to ann-bot-" in output
    answer = site.tritonstack("invoke", "test", "search", "--name", "run-1", "A man is eating food.")
    assert "embedding" in answer


def test_every_stack_carries_owner_purpose_and_expiry(site: Site) -> None:
    stacks = environment_stacks(site.cloud, BASE)
    assert {stack.name.removeprefix(f"{BASE}-") for stack in stacks} == {
        "foundation",
        "network",
        "build",
        "monitoring",
        "endpoint-search",
    }
    for stack in stacks:
        assert stack.tags.keys() >= {"owner", "purpose", "expires"}, stack
        assert stack.tags["purpose"] == "a run of the tests"


def test_audit_finds_all_resources_and_their_owners(site: Site) -> None:
    found = report(site, "test", "--name", "run-1")
    assert (found["orphans"], found["not_listed"]) == ([], [])
    assert {item["stack"].removeprefix(f"{BASE}-") for item in found["resources"]} == {
        "foundation",
        "network",
        "build",
        "monitoring",
        "endpoint-search",
    }
    # The two call things otherwise; that there are as many of each sort is what the inventory witnesses.
    there = Counter(sort_of(item["service"], item["type"]) for item in held(site))
    listed = Counter(sort_of(*item["type"].split("::")[1:]) for item in found["resources"])
    assert len(there) > 20
    assert {sort: listed[sort] for sort in there} == dict(there)


def sort_of(service: str, kind: str) -> str:
    return f"{service} {kind.replace('-', '').removesuffix('s')}".lower()


def test_only_a_new_ttl_changes_the_expiry(site: Site) -> None:
    before = {stack.tags["expires"] for stack in environment_stacks(site.cloud, BASE)}
    config = active_config(site)
    site.tritonstack("deploy", "test", "--name", "run-1", "--ttl", "3h")
    after = {stack.tags["expires"] for stack in environment_stacks(site.cloud, BASE)}
    assert len(before) == len(after) == 1
    assert min(after) > max(before)
    assert {stack.tags["owner"] for stack in environment_stacks(site.cloud, BASE)} == {"ann-bot-"}
    assert active_config(site) == config, "a new expiry rolled the endpoint out"


def active_config(site: Site) -> str:
    described = site.cloud.client("sagemaker").describe_endpoint(EndpointName=f"{BASE}-search")
    return str(described["EndpointConfigName"])


def plant(site: Site) -> set[str]:
    """Create resources without a stack, as people and services leave them."""
    client = site.cloud.client
    client("s3").create_bucket(Bucket=f"{BASE}-planted")
    client("logs").create_log_group(logGroupName=f"/{BASE}/planted")
    client("cloudwatch").put_metric_alarm(
        AlarmName=f"TargetTracking-endpoint/{BASE}-planted/variant/main-AlarmHigh",
        MetricName="m",
        Namespace="n",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
    )
    client("ssm").put_parameter(Name=f"/{BASE}/planted", Value="x", Type="String")
    topic = client("sns").create_topic(Name=f"{BASE}-planted")["TopicArn"]
    key = client("kms").create_key(
        Tags=[
            {"TagKey": "project", "TagValue": "tritonstack"},
            {"TagKey": "environment", "TagValue": "run-1"},
        ]
    )["KeyMetadata"]["KeyId"]
    return {
        f"{BASE}-planted",
        f"/{BASE}/planted",
        f"TargetTracking-endpoint/{BASE}-planted/variant/main-AlarmHigh",
        topic,
        key,
    }


def test_manually_created_orphans_are_found(site: Site) -> None:
    planted = plant(site)
    found = report(site, "test", "--name", "run-1", exit_code=1)
    assert {item["id"] for item in found["orphans"]} == planted


def test_destroy_ends_whenever_it_is_killed(site: Site) -> None:
    """Each run is killed one line of output later than the previous one, until one finishes."""
    kills = 0
    for lines in itertools.count(1):
        process = site.start("tritonstack", "destroy", "test", "--name", "run-1", "--yes")
        assert process.stdout is not None
        said = list(itertools.islice(process.stdout, lines))
        if len(said) < lines:
            assert process.wait() == 0, said
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
        assert kills < MOST_KILLS, said
    print(f"destroyed after {kills} kills")
    assert kills > 2


def test_leftovers_of_a_killed_destroy_are_deleted_by_name(site: Site) -> None:
    """Two concurrent runs do not interfere."""
    site.project.template_file("test").unlink()
    stack = f"{BASE}-network"
    topic = {"Topic": {"Type": "AWS::SNS::Topic"}}
    body = json.dumps({"Description": "tritonstack: the network", "Resources": topic})
    site.cloud.client("cloudformation").create_stack(StackName=stack, TemplateBody=body)
    at_once = [site.start("tritonstack", "destroy", "test", "--name", "run-1", "--yes") for _ in range(2)]
    said = [process.communicate(timeout=600)[0] for process in at_once]
    assert [process.returncode for process in at_once] == [0, 0], said
    assert any(f"{stack}: DELETE_COMPLETE" in output for output in said)
    site.project.template_file("test").write_text(TEMPLATE)


def test_only_created_orphans_remain(site: Site) -> None:
    found = report(site, "test", "--name", "run-1", "--gone", exit_code=1)
    assert found["resources"] == found["orphans"]
    assert {item["id"] for item in found["orphans"]} >= {f"{BASE}-planted", f"/{BASE}/planted"}
    uproot(site, [item["id"] for item in found["orphans"]])
    assert report(site, "test", "--name", "run-1", "--gone")["resources"] == []
    assert held(site) == []


def uproot(site: Site, ids: list[str]) -> None:
    client = site.cloud.client
    client("s3").delete_bucket(Bucket=f"{BASE}-planted")
    client("logs").delete_log_group(logGroupName=f"/{BASE}/planted")
    client("cloudwatch").delete_alarms(AlarmNames=[name for name in ids if name.startswith("TargetTracking")])
    client("ssm").delete_parameter(Name=f"/{BASE}/planted")
    for one in ids:
        if one.startswith("arn:aws:sns"):
            client("sns").delete_topic(TopicArn=one)
        elif len(one) == 36:
            client("kms").schedule_key_deletion(KeyId=one)


def test_reap_destroys_only_expired_environments(site: Site) -> None:
    told = {"env": "test", "name": "run-2", "owner": "ann", "expires": "2000-01-01T00:00:00Z"}
    context = [word for key, value in told.items() for word in ("-c", f"{key}={value}")]
    foundation, endpoint = "tritonstack-run-2-foundation", "tritonstack-run-2-endpoint-search"
    deploy = ("cdk", "deploy", *context, "--require-approval", "never")
    site.run(*deploy, foundation, with_cloud=True)
    copy_artifacts(site, "run-2")
    site.run(*deploy, endpoint, with_cloud=True)
    # Another limit replaces the configuration; both outlive their stack, and so does the model.
    edit(site.project.template_file("test"), "kind: ensemble", "kind: ensemble\n    startup_timeout_s: 900")
    site.run(*deploy, endpoint, with_cloud=True)
    site.run("cdk", "destroy", endpoint, *context, "--force", with_cloud=True)
    orphans = report(site, "test", "--name", "run-2", exit_code=1)["orphans"]
    config, model = "AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Model"
    assert [item["type"] for item in orphans] == [config, config, model]
    dry = site.tritonstack("reap", "--dry-run")
    assert "tritonstack-run-2 of ann expired at 2000-01-01T00:00:00Z; would be destroyed" in dry
    assert len(environment_stacks(site.cloud, "tritonstack-run-2")) == 2
    reaped = site.asked("reap")
    assert (reaped["reaped"], reaped["failed"]) == (["tritonstack-run-2"], {})
    assert held(site) == []
    assert "in service" not in site.tritonstack("reap")
    assert "embedding" in site.tritonstack("invoke", "local", "search", "A man is eating food.")


def copy_artifacts(site: Site, instance: str) -> None:
    """Copy the artifacts of the local environment, as `tritonstack deploy` does for an instance."""
    s3, source = site.cloud.client("s3"), site.spec.artifact_bucket
    target = source.replace("tritonstack-local-", f"tritonstack-{instance}-")
    for item in s3.list_objects_v2(Bucket=source, Prefix="models/")["Contents"]:
        s3.copy_object(Bucket=target, Key=item["Key"], CopySource={"Bucket": source, "Key": item["Key"]})


def test_permanent_environment_is_destroyed_completely(site: Site) -> None:
    site.tritonstack("destroy", "local", "--yes")
    found = report(site, "local", "--gone")
    assert found["resources"] == []
    assert [item for item in site.inventory() if "tritonstack-" in json.dumps(item)] == []
    assert report(site, "--gone")["resources"] == []
