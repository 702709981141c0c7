"""What an audit finds: every kind of resource, its owner, and services that cannot be listed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from tests.sample_templates import sample_templates
from tritonstack.base import naming
from tritonstack.operate.audit import audit as reports
from tritonstack.operate.audit.audit import LISTINGS, Ownership, decide, find_resources, merge, read_ownership
from tritonstack.operate.audit.resources import STACK_TAG, AuditScope, AwsResource, Listing
from tritonstack.operate.audit.tagged import Lists, still_there, tagged, type_and_id
from tritonstack.operate.shared.aws import Cloud

BASE = "tritonstack-dev"
SCOPE = AuditScope(BASE, {"project": "tritonstack", "environment": "dev"})
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
ALLOWED = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}
)
PARTS: Mapping[str, str] = {
    "AWS::S3::BucketPolicy": "AWS::S3::Bucket",
    "AWS::SNS::TopicPolicy": "AWS::SNS::Topic",
    "AWS::IAM::Policy": "AWS::IAM::Role",
    "AWS::Logs::MetricFilter": "AWS::Logs::LogGroup",
    "AWS::EC2::SecurityGroupIngress": "AWS::EC2::SecurityGroup",
    "AWS::EC2::SecurityGroupEgress": "AWS::EC2::SecurityGroup",
    "AWS::EC2::SubnetRouteTableAssociation": "AWS::EC2::Subnet",
}
"""Types that cannot exist without a parent, by the parent's type."""
NOTHING = frozenset({"AWS::CDK::Metadata"})
"""Types that create no AWS resource."""
LISTED_TYPES = {kind for listing in LISTINGS for kind in listing.types}


def test_every_creatable_resource_type_is_listed():
    """The samples contain one stack of each kind with all its options."""
    types = {
        resource["Type"]
        for template in sample_templates().values()
        for resource in template["Resources"].values()
    }
    assert len(types) > 25
    assert types - LISTED_TYPES - PARTS.keys() - NOTHING == set()
    assert set(PARTS.values()) <= LISTED_TYPES


PLANTED: dict[str, list[tuple[str, str, dict[str, Any]]]] = yaml.safe_load(
    Path(__file__).with_name("planted.yaml").read_text()
)


def plant(cloud: Cloud, kind: str) -> dict[str, Any]:
    """Make a resource and what it needs, by boto3; return the last answer."""
    made: dict[str, Callable[[], Any]] = {
        "KEY": lambda: cloud.client("kms").create_key()["KeyMetadata"]["KeyId"],
        "TOPIC": lambda: plant(cloud, "AWS::SNS::Topic")["TopicArn"],
        "VPC": lambda: plant(cloud, "AWS::EC2::VPC")["Vpc"]["VpcId"],
        "SUBNET": lambda: plant(cloud, "AWS::EC2::Subnet")["Subnet"]["SubnetId"],
    }
    answer: dict[str, Any] = {}
    for service, operation, parameters in PLANTED[kind]:
        named = {name: made[value]() for name, value in parameters.items() if str(value) in made}
        listed = {"ResourceIds": [made["VPC"]()]} if "ResourceIds" in parameters else {}
        answer = getattr(cloud.client(service), operation)(**{**parameters, **named, **listed})
    return answer


class SimulatedPages:
    """A service that moto lacks or is slow to simulate; it returns only what the test sets."""

    def __init__(self, answers: dict[str, dict[str, Any]]) -> None:
        self._answers = answers

    def get_paginator(self, operation: str) -> SimulatedPages:
        return SimulatedPages({"": self._answers.get(operation, {})})

    def paginate(self, **_: Any) -> list[dict[str, Any]]:
        return [self._answers[""]]


PLAYED: dict[str, dict[str, dict[str, Any]]] = {
    "AWS::CloudWatch::CompositeAlarm": {
        "describe_alarms": {"CompositeAlarms": [{"AlarmName": f"{BASE}-all"}, {"AlarmName": f"a{BASE}-x"}]}
    },
    "AWS::SageMaker::InferenceComponent": {
        "list_inference_components": {
            "InferenceComponents": [
                {"InferenceComponentName": name, "InferenceComponentArn": f"arn/{name}"}
                for name in (f"{BASE}-x", f"a-{BASE}-x")
            ]
        }
    },
    "AWS::EC2::Image": {
        "describe_images": {
            "Images": [{"ImageId": "ami-1", "Name": f"{BASE}-x"}, {"ImageId": "ami-2", "Name": "x"}]
        }
    },
    "AWS::EC2::Snapshot": {
        "describe_snapshots": {
            "Snapshots": [
                {"SnapshotId": "snap-1", "Description": "", "Tags": [{"Key": "Name", "Value": f"{BASE}-x"}]},
                {"SnapshotId": "snap-2", "Description": "of something else"},
            ]
        }
    },
}


def listing_of(kind: str) -> Listing:
    (listing,) = [entry for entry in LISTINGS if kind in entry.types]
    return listing


def test_one_orphan_per_type_is_created():
    assert PLANTED.keys() | PLAYED.keys() == LISTED_TYPES


@pytest.mark.parametrize("kind", PLANTED)
def test_leftovers_are_found_by_name_per_type(cloud, kind):
    listing = listing_of(kind)
    plant(cloud, kind)
    leftovers = list(listing.find(cloud, SCOPE))
    assert kind in {item.type for item in leftovers}
    assert {item.type for item in leftovers} <= set(listing.types)
    # One whose name only begins alike is not meant.
    assert list(listing.find(cloud, AuditScope(BASE[:-1]))) == []


@pytest.mark.parametrize("kind", PLAYED)
def test_leftovers_of_types_without_emulation_are_found_by_name(kind, monkeypatch):
    monkeypatch.setattr(Cloud, "client", lambda *_: SimulatedPages(PLAYED[kind]))
    cloud = Cloud("1", "us-east-1", {})
    assert [item.type for item in listing_of(kind).find(cloud, SCOPE)] == [kind]
    assert list(listing_of(kind).find(cloud, AuditScope(BASE[:-1]))) == []


ARNS = {
    "s3:::x": ("AWS::S3::Bucket", "x"),
    "kms:us-east-1:1:key/12345678-1234-1234-1234-123456789012": (
        "AWS::KMS::Key",
        "12345678-1234-1234-1234-123456789012",
    ),
    "ecr:us-east-1:1:repository/t-dev/serving": ("AWS::ECR::Repository", "t-dev/serving"),
    "logs:us-east-1:1:log-group:/t-dev/builds": ("AWS::Logs::LogGroup", "/t-dev/builds"),
    "logs:us-east-1:1:log-group:/t-dev/builds:*": ("AWS::Logs::LogGroup", "/t-dev/builds"),
    "sagemaker:us-east-1:1:model/x": ("AWS::SageMaker::Model", ""),
    "sagemaker:us-east-1:1:endpoint/x": ("AWS::SageMaker::Endpoint", ""),
    "sagemaker:us-east-1:1:endpoint-config/x": ("AWS::SageMaker::EndpointConfig", ""),
    "sagemaker:us-east-1:1:processing-job/x": ("AWS::SageMaker::ProcessingJob", ""),
    "cloudwatch:us-east-1:1:alarm:a/b": ("AWS::CloudWatch::Alarm", "a/b"),
    "cloudwatch::1:dashboard/x": ("AWS::CloudWatch::Dashboard", "x"),
    "sns:us-east-1:123456789012:x": ("AWS::SNS::Topic", ""),
    "events:us-east-1:1:rule/x": ("AWS::Events::Rule", "x"),
    "ssm:us-east-1:1:parameter/t-dev/key": ("AWS::SSM::Parameter", "/t-dev/key"),
    "codebuild:us-east-1:1:project/x": ("AWS::CodeBuild::Project", "x"),
    "codepipeline:us-east-1:1:x": ("AWS::CodePipeline::Pipeline", "x"),
    "cloudformation:us-east-1:1:stack/x/uuid": ("AWS::CloudFormation::Stack", "x"),
    "ec2:us-east-1:1:vpc-endpoint/x": ("AWS::EC2::VPCEndpoint", "x"),
    "ec2:us-east-1:1:vpc/x": ("AWS::EC2::VPC", "x"),
    "lambda:us-east-1:1:function:x": ("lambda:function", ""),
    "sqs:us-east-1:1:x": ("sqs:resource", ""),
}
"""ARNs without `arn:aws:`, and type and id as in CloudFormation; an empty id is the whole ARN."""
UNLISTED = ("AWS::EC2", "lambda", "sqs")
"""Types that are found by tag alone, and so believed."""


@pytest.mark.parametrize("arn", ARNS)
def test_arns_are_formed_as_in_cloudformation(arn):
    kind, name = ARNS[arn]
    assert type_and_id(f"arn:aws:{arn}") == (kind, name or f"arn:aws:{arn}")


def test_resources_with_other_names_are_found_by_tags(cloud):
    tags = {"project": "tritonstack", "environment": "dev"}
    cloud.client("logs").create_log_group(logGroupName="somewhere-else", tags=tags)
    cloud.client("logs").create_log_group(logGroupName="others", tags={**tags, "environment": "two"})
    assert [item.key for item in tagged(cloud, SCOPE)] == [("AWS::Logs::LogGroup", "somewhere-else")]


def test_deleted_resources_that_are_still_tagged_are_omitted(cloud):
    lists: Lists = {}
    tagged_resources = [AwsResource(*type_and_id(f"arn:aws:{arn}")) for arn in ARNS]
    there = [item.type for item in tagged_resources if still_there(cloud, item, lists)]
    assert there == [kind for kind, _ in ARNS.values() if kind.startswith(UNLISTED)]


@pytest.mark.parametrize(
    "kind", sorted({kind for kind, _ in ARNS.values() if kind in PLANTED and not kind.startswith(UNLISTED)})
)
def test_existing_resources_are_not_reported_as_deleted(cloud, kind):
    plant(cloud, kind)
    listed = listing_of(kind).find(cloud, SCOPE)
    resources = [item for item in listed if isinstance(item, AwsResource) and item.type == kind]
    assert resources
    assert [still_there(cloud, item, {}) for item in resources] == resources


def owned(**owners: str) -> Ownership:
    keys = {("AWS::S3::Bucket", name.replace("_", "-")): stack for name, stack in owners.items()}
    return Ownership(frozenset(owners.values()), keys)


def decided(
    resource: AwsResource, ownership: Ownership, scope: AuditScope = SCOPE, **more: Any
) -> list[str | None]:
    return [item.stack for item in decide([resource], ownership, scope, **more)]


MINE, OTHERS = f"{BASE}-foundation", f"{BASE}-two-foundation"


def bucket(name: str, **tags: str) -> AwsResource:
    return AwsResource("AWS::S3::Bucket", name, tags)


def test_the_owner_of_a_resource():
    standing = owned(a_bucket=MINE)
    function, retained = ("lambda:function", "x"), ("AWS::SageMaker::Model", "m")
    for resource, owner in (
        (bucket("a-bucket"), MINE),
        (bucket("b-bucket"), None),
        (AwsResource(*function, {STACK_TAG: MINE}), MINE),
        (AwsResource(*function, {STACK_TAG: "gone"}), None),
        (AwsResource("AWS::EC2::NetworkInterface", "e", within=("AWS::S3::Bucket", "a-bucket")), MINE),
        (AwsResource("AWS::CloudFormation::Stack", MINE), MINE),
        # what a stack has retained on purpose is its own while it exists
        (AwsResource(*retained, {naming.OWNER_TAG: MINE}), MINE),
        (AwsResource(*retained, {naming.OWNER_TAG: "gone"}), None),
    ):
        assert decided(resource, standing) == [owner]


def test_a_resource_removed_from_its_stack_is_orphaned_despite_its_tag():
    standing = owned(a_bucket=MINE)
    assert decided(bucket("a-bucket", **{STACK_TAG: MINE}), standing) == [MINE]
    assert decided(bucket("b-bucket", **{STACK_TAG: MINE}), standing) == [None]
    # What an update makes, or has not deleted yet, need not be on its list.
    busy = replace(standing, busy=frozenset({MINE}))
    assert decided(bucket("b-bucket", **{STACK_TAG: MINE}), busy) == [MINE]


def test_resources_of_an_environment_with_a_similar_name_are_excluded():
    """Their names start alike: tritonstack-dev and tritonstack-dev-two."""
    both = owned(mine=MINE, theirs=OTHERS)
    assert decided(bucket("theirs"), both) == []
    assert decided(bucket(f"{BASE}-two-logs"), both) == []
    assert decided(bucket(f"{BASE}-two-logs"), owned(mine=MINE), others=[f"{BASE}-two"]) == []
    assert decided(bucket(f"{BASE}-two-logs"), owned(mine=MINE)) == [None]
    assert decided(bucket("x", project="tritonstack", environment="two"), both) == []
    assert decided(bucket("x", project="tritonstack", environment="dev"), both) == [None]


def test_a_resource_in_several_listings_counts_once():
    again = AwsResource("AWS::S3::Bucket", "b", {"environment": "dev"}, ("AWS::EC2::VPC", "v"), pending=True)
    for resources in ([bucket("b", project="t"), again], [again, bucket("b", project="t")]):
        (merged,) = merge(resources)
        assert merged == replace(again, tags={"project": "t", "environment": "dev"})


def test_an_audit_of_all_environments_includes_each_of_them():
    both, everywhere = owned(mine=MINE, theirs=OTHERS), AuditScope("tritonstack", whole=True)
    assert decided(bucket("theirs"), both, everywhere) == [OTHERS]
    assert decided(bucket(f"{BASE}-two-logs"), both, everywhere) == [None]


def test_owners_are_read_from_the_stacks_in_scope(monkeypatch):
    """The network's stack is deleted while it is read; the foundation's is being updated."""
    network, model = f"{BASE}-network", "arn:aws:sagemaker:us-east-1:1:model/m-1"
    listed = [
        {"ResourceType": "AWS::S3::Bucket", "PhysicalResourceId": "b", "ResourceStatus": "CREATE_COMPLETE"},
        {"ResourceType": "AWS::S3::Bucket", "PhysicalResourceId": "c", "ResourceStatus": "DELETE_COMPLETE"},
        {"ResourceType": "AWS::S3::Bucket", "ResourceStatus": "CREATE_IN_PROGRESS"},
        {
            "ResourceType": "AWS::SageMaker::Model",
            "PhysicalResourceId": model,
            "ResourceStatus": "UPDATE_COMPLETE",
        },
    ]
    statuses = {MINE: "UPDATE_IN_PROGRESS", network: "DELETE_IN_PROGRESS", "other": "CREATE_COMPLETE"}
    stacks = [{"StackName": name, "StackStatus": status} for name, status in statuses.items()]

    def pages(_: Any, operation: str, __: str, StackName: str = "") -> list[Any]:  # noqa: N803  boto3's spelling
        if StackName == network:
            message = f"Stack with id {network} does not exist"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, operation)
        return listed if StackName else stacks

    monkeypatch.setattr(reports, "pages", pages)
    monkeypatch.setattr(Cloud, "client", lambda *_: None)
    ownership = read_ownership(Cloud("1", "us-east-1", {}), SCOPE)
    assert (ownership.stacks, ownership.busy) == ({MINE, network}, {MINE, network})
    assert ownership.owners == {
        ("AWS::CloudFormation::Stack", MINE): MINE,
        ("AWS::S3::Bucket", "b"): MINE,
        ("AWS::SageMaker::Model", model): MINE,
        ("AWS::SageMaker::Model", "m-1"): MINE,
    }


def test_a_stacks_own_resources_are_distinguished_from_foreign_ones(cloud, monkeypatch):
    monkeypatch.setattr(
        reports, "LISTINGS", [listing for listing in LISTINGS if listing.types[0] not in PLAYED]
    )
    properties = {"BucketName": f"{BASE}-logs"}
    body = {"Resources": {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": properties}}}
    cloud.client("cloudformation").create_stack(StackName=MINE, TemplateBody=json.dumps(body))
    cloud.client("s3").create_bucket(Bucket=f"{BASE}-planted")
    key = cloud.client("kms").create_key(Description=f"Encrypts all of {BASE}")["KeyMetadata"]["KeyId"]
    cloud.client("kms").schedule_key_deletion(KeyId=key)
    report = find_resources(cloud, SCOPE)
    assert [(item.id, item.stack) for item in report.resources] == [
        (MINE, MINE),
        (f"{BASE}-logs", MINE),
        (f"{BASE}-planted", None),
    ]
    assert [item.id for item in report.orphans] == [f"{BASE}-planted"]
    assert [item.id for item in report.pending_deletion] == [key]


def test_a_service_that_fails_is_named_and_the_others_are_reported(cloud, monkeypatch):
    def reject(*_: Any) -> Iterator[AwsResource]:
        yield AwsResource("AWS::SNS::Topic", "before")
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListTopics")

    def tell(*_: Any) -> Iterator[AwsResource]:
        yield bucket("mine")

    listings = (Listing("sns", ("AWS::SNS::Topic",), reject), Listing("s3", ("AWS::S3::Bucket",), tell))
    monkeypatch.setattr(reports, "LISTINGS", listings)
    report = find_resources(cloud, AuditScope(BASE))
    assert [(item.service, "AccessDenied" in item.message) for item in report.not_listed] == [("sns", True)]
    assert [item.id for item in report.resources] == ["mine", "before"]


def test_names_match_whole_words():
    for name, meant in (
        (BASE, True),
        (f"{BASE}-x", True),
        (f"{BASE}/x", True),
        (f"{BASE}_x", True),
        (f"{BASE}2", False),
        (f"a{BASE}", False),
    ):
        assert SCOPE.names(name) is meant, name
    assert SCOPE.names(f"/{BASE}/x", "/")
    assert not SCOPE.names(f"{BASE}/x", "/")
