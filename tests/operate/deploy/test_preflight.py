"""The preflight: images, quotas, and zones of an account, before anything is created there."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto.core.models import DEFAULT_ACCOUNT_ID as ACCOUNT
from moto.servicequotas.models import ServiceQuotasBackend

from tests.environments import NAME, write_environment
from tests.files.one_endpoint import DIGEST, environment, locked
from tests.moto_aws import simulated_aws
from tritonstack import Session, deploy
from tritonstack.base.errors import TritonstackError
from tritonstack.files.environment.templates import Instance
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.locks import LockedImage
from tritonstack.operate.deploy.preflight import Preflight, PreflightError, check_account, preflight
from tritonstack.operate.shared.aws import Cloud
from tritonstack_local.moto_patches import images_and_quotas

REGION = "us-east-1"
BY_HAND: dict[str, Any] = {"builds": {"machines": {"sm80": {"by_hand": True}}}}
"""No build machine of AWS has this GPU."""
ENDPOINT_INSTANCES = "Number of instances across active endpoints"


@pytest.fixture(autouse=True)
def aws(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with simulated_aws():
        yield


def checked(folder: Path, endpoint: str = "", **changes: object) -> Preflight:
    data = environment(endpoint, **{"account": ACCOUNT, "region": REGION, **changes})
    workspace = load_workspace(write_environment(folder, data), NAME)
    return preflight(Cloud(ACCOUNT, REGION, {}), workspace, own_images=True)


def statuses(report: Preflight, kind: str) -> dict[str, str]:
    return {check.subject.partition(" (")[0]: check.status for check in report.checks if check.kind == kind}


def network(*zones: str) -> dict[str, Any]:
    return {"create": {"availability_zone_ids": list(zones)}}


def test_an_account_that_has_everything_passes(tmp_path):
    report = checked(tmp_path, "instance_type: ml.g5.xlarge", network={"create": {}})
    assert {check.kind for check in report.checks} == {"image", "quota", "zones"}
    assert (report.complete, report.failed) == (True, ())
    assert len(report.table().splitlines()) == len(report.checks) + 1


@pytest.mark.parametrize(
    ("endpoint", "tags"),
    [
        ("", ["25.04-py3-cpu"]),
        ("instance_type: ml.g5.xlarge", ["25.04-py3"]),
        ("challenger: {instance_type: ml.g5.xlarge, share: 0.5}", ["25.04-py3-cpu", "25.04-py3"]),
    ],
)
def test_every_image_of_an_endpoint_must_exist(tmp_path, monkeypatch, endpoint, tags):
    monkeypatch.setattr(images_and_quotas, "RELEASES", {})
    failed = checked(tmp_path, endpoint).failed
    registry = f"763104351884.dkr.ecr.{REGION}.amazonaws.com/sagemaker-tritonserver"
    assert [(check.subject, check.found) for check in failed] == [
        (f"{registry}:{tag}", "ImageNotFound") for tag in tags
    ]


@pytest.mark.parametrize(("pushed", "status"), [(True, "ok"), (False, "failed"), (None, "failed")])
def test_a_custom_image_must_be_in_the_accounts_registry(tmp_path, pushed, status):
    """Without its repository, it cannot be there either."""
    digest = f"sha256:{DIGEST}"
    client = boto3.client("ecr", REGION)
    if pushed is not None:
        client.create_repository(repositoryName=f"tritonstack-{NAME}/serving")
    if pushed:
        media_type = "application/vnd.oci.image.manifest.v1+json"
        manifest = json.dumps({"schemaVersion": 2, "mediaType": media_type, "layers": []})
        image = client.put_image(
            repositoryName=f"tritonstack-{NAME}/serving", imageTag="x", imageManifest=manifest
        )
        digest = image["image"]["imageId"]["imageDigest"]
    (tmp_path / "containers" / "serving").mkdir(parents=True)
    (tmp_path / "containers" / "serving" / "Dockerfile").write_text("ARG BASE\nFROM $BASE\n")
    workspace = locked(tmp_path, "image: serving", {}, account=ACCOUNT, region=REGION)
    workspace.lock.record.images["serving"] = {"cpu": LockedImage(digest=digest, tag="x")}
    report = preflight(Cloud(ACCOUNT, REGION, {}), workspace, own_images=True)
    assert [
        (check.subject.partition("@")[2], check.status) for check in report.checks if check.kind == "image"
    ] == [(digest, status)]
    elsewhere = preflight(Cloud(ACCOUNT, REGION, {}), workspace, own_images=False)
    assert statuses(elsewhere, "image") == {}
    # The repository of an instance is created and filled by its first deployment.
    session, instance = (
        Session(workspace.project),
        replace(workspace, instance=Instance("preview", "pr-1", "ann", "", {})),
    )
    assert statuses(check_account(session, instance, Cloud(ACCOUNT, REGION, {})), "image") == {}


@pytest.mark.parametrize(
    ("value", "instances"),
    [(0, "failed"), (1, "failed"), (2, "warning"), (5, "warning"), (6, "ok"), (7, "ok")],
)
def test_quotas_below_the_start_fail_and_below_the_peak_warn(tmp_path, monkeypatch, value, instances):
    """Two instances at first, three at most, doubled during an update."""
    monkeypatch.setattr(images_and_quotas, "VALUE", float(value))
    report = checked(tmp_path, "scaling: {min_instances: 2, max_instances: 3}")
    quotas = statuses(report, "quota")
    by_name = {name.partition(" for ")[0]: status for name, status in quotas.items()}
    assert (by_name["ml.c7i.xlarge"], quotas[ENDPOINT_INSTANCES]) == (instances, instances)
    # Builds are over before a deployment.
    assert by_name["Concurrently running builds"] in ("ok", "warning")
    (check,) = [check for check in report.checks if check.subject.startswith("ml.c7i.xlarge")]
    code = check.subject.removesuffix(")").rpartition(" ")[2]
    assert (check.needed, check.found) == ("2, 6 at peak", f"{value}")
    assert (f"--quota-code {code} --desired-value 6 --region {REGION}" in check.help) is (instances != "ok")


@pytest.mark.parametrize(
    ("stack", "status"), [("foundation", "failed"), ("endpoint-e-f", "failed"), ("endpoint-e", "warning")]
)
def test_a_quota_fails_only_for_endpoints_without_a_stack(tmp_path, monkeypatch, stack, status):
    """A deployed endpoint has its instances."""
    monkeypatch.setattr(images_and_quotas, "VALUE", 0.0)
    template = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
    name = f"tritonstack-{NAME}-{stack}"
    boto3.client("cloudformation", REGION).create_stack(StackName=name, TemplateBody=template)
    quotas = statuses(checked(tmp_path, "scaling: {max_instances: 3}"), "quota")
    names = ("ml.c7i.xlarge for endpoint usage", "Scalable targets for SageMaker")
    assert [quotas[name] for name in names] == [status, status]


def test_a_quota_that_aws_does_not_list_is_not_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(ServiceQuotasBackend, "list_aws_default_service_quotas", lambda *_: [])
    report = checked(tmp_path)
    assert set(statuses(report, "quota").values()) == {"unchecked"}
    assert (report.complete, report.failed) == (False, ())


@pytest.mark.parametrize(
    ("zones", "status"),
    [
        (network("use1-az1", "use1-az2"), "ok"),
        (network("use1-az3", "use1-az1"), "warning"),
        (network("use1-az3", "use1-az5"), "warning"),
        ({"create": {"availability_zones": 3}}, "ok"),
    ],
)
def test_zones_of_a_new_network_must_have_the_instance_types(tmp_path, zones, status):
    """Of the account, if ids are given. EC2 may sell a type nowhere in a region where SageMaker has it."""
    wrong = checked(tmp_path, network=network("use1-az1", "use1-az9"))
    assert statuses(wrong, "zones") == {"availability_zone_ids": "failed"}
    data = environment("instance_type: ml.g6.xlarge", account=ACCOUNT, network={"create": {}})
    workspace = load_workspace(write_environment(tmp_path, data), NAME)
    elsewhere = preflight(Cloud(ACCOUNT, "eu-west-1", {}), workspace, own_images=True)
    assert statuses(elsewhere, "zones") == {"ml.g6.xlarge": "unchecked"}
    report = checked(tmp_path, "instance_type: ml.p4d.24xlarge", **BY_HAND, network=zones)
    assert statuses(report, "zones") == {"ml.p4d.24xlarge": status}
    (check,) = [check for check in report.checks if check.kind == "zones"]
    assert check.found == "use1-az1, use1-az2, use1-az4, use1-az6"
    assert ("availability_zone_ids" in check.help) is (status != "ok")


def test_subnets_must_exist_and_their_zones_have_the_instance_types(tmp_path):
    ec2 = boto3.client("ec2", REGION)
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.9.{number}.0/24", AvailabilityZoneId=f"use1-az{number}")
        for number in (3, 5)
    ]
    there = [subnet["Subnet"]["SubnetId"] for subnet in subnets]
    for ids, expected in (
        (there, {"ml.p4d.24xlarge": "warning"}),
        (["subnet-0a1b2c3d", "subnet-1a1b2c3d"], {"subnets": "failed"}),
    ):
        existing = {"vpc_id": vpc, "subnet_ids": ids, "security_group_ids": ["sg-0a1b2c3d"]}
        report = checked(
            tmp_path, "instance_type: ml.p4d.24xlarge", **BY_HAND, network={"existing": existing}
        )
        assert statuses(report, "zones") == expected


DENIED = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "BatchGetImage")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DENIED, "no permission ecr:BatchGetImage"),
        (EndpointConnectionError(endpoint_url="https://x"), "Could not connect"),
    ],
)
def test_what_aws_does_not_answer_is_not_checked(tmp_path, monkeypatch, error, reason):
    """Roles of earlier versions lack these permissions, and must still deploy."""

    def rejects(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", rejects)
    checks = checked(tmp_path, network={"create": {}}).checks
    assert {(check.kind, check.status) for check in checks} == {
        (kind, "unchecked") for kind in ("image", "quota", "zones")
    }
    assert checks[0].found.startswith(reason)


@pytest.mark.parametrize("lacking", ["image", "quota"])
def test_nothing_is_created_if_the_account_lacks_something(tmp_path, monkeypatch, lacking):
    if lacking == "image":
        monkeypatch.setattr(images_and_quotas, "RELEASES", {})
    else:
        monkeypatch.setattr(images_and_quotas, "VALUE", 0.0)
    workspace = locked(tmp_path, "", {"cpu": {}}, account=ACCOUNT, region=REGION)
    with pytest.raises(TritonstackError) as caught:
        deploy(Session(workspace.project), NAME, bootstrap=True)
    assert isinstance(caught.value, PreflightError)
    assert boto3.client("cloudformation", REGION).list_stacks()["StackSummaries"] == []
    assert boto3.client("s3", REGION).list_buckets()["Buckets"] == []
