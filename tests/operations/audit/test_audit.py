"""What an audit finds: every kind of resource, its owner, and services that cannot be listed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.sample_templates import sample_templates
from tritonstack.base import naming
from tritonstack.operations.audit import report as reports
from tritonstack.operations.audit.listings import LISTINGS
from tritonstack.operations.audit.report import Ownership, audit, decide, merge, read_ownership
from tritonstack.operations.audit.resources import STACK_TAG, AuditScope, AwsResource, Listing
from tritonstack.operations.audit.tagged import Lists, still_there, tagged, type_and_id
from tritonstack.operations.aws import Cloud

BASE = "tritonstack-dev"
SCOPE = AuditScope(BASE, {"project": "tritonstack", "environment": "dev"})
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
ALLOWED = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}
)
PIPELINES = {"Service": "codepipeline.amazonaws.com"}
PIPELINES_TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": PIPELINES, "Action": "sts:AssumeRole"}],
    }
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
TEMPLATE = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
ROLE = "arn:aws:iam::123456789012:role/x"


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


def sagemaker_model(cloud: Cloud, name: str) -> None:
    cloud.client("sagemaker").create_model(
        ModelName=name, PrimaryContainer={"Image": "image"}, ExecutionRoleArn=ROLE
    )


def config(cloud: Cloud, name: str) -> None:
    sagemaker_model(cloud, "other-model")
    variant = {
        "VariantName": "main",
        "ModelName": "other-model",
        "InitialInstanceCount": 1,
        "InstanceType": "ml.m5.large",
    }
    cloud.client("sagemaker").create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])


def endpoint(cloud: Cloud, name: str) -> None:
    config(cloud, "other-config")
    cloud.client("sagemaker").create_endpoint(EndpointName=name, EndpointConfigName="other-config")


def processing_job(cloud: Cloud) -> None:
    cluster = {"InstanceCount": 1, "InstanceType": "ml.g6.xlarge", "VolumeSizeInGB": 200}
    cloud.client("sagemaker").create_processing_job(
        ProcessingJobName=f"{BASE}-build-0123456789abcdef-1",
        ProcessingResources={"ClusterConfig": cluster},
        AppSpecification={"ImageUri": "image"},
        RoleArn=ROLE,
    )


def scaled(cloud: Cloud) -> dict[str, str]:
    target = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{BASE}-x/variant/main",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    client = cloud.client("application-autoscaling")
    client.register_scalable_target(**target, MinCapacity=1, MaxCapacity=2, RoleARN=ROLE)
    return target


def policy(cloud: Cloud) -> None:
    cloud.client("application-autoscaling").put_scaling_policy(
        PolicyName="p", PolicyType="TargetTrackingScaling", **scaled(cloud)
    )


def scheduled(cloud: Cloud) -> None:
    cloud.client("application-autoscaling").put_scheduled_action(
        ScheduledActionName="a", Schedule="at(2030-01-01T00:00:00)", **scaled(cloud)
    )


def alarm(cloud: Cloud, name: str) -> None:
    cloud.client("cloudwatch").put_metric_alarm(
        AlarmName=name,
        MetricName="m",
        Namespace="n",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
    )


def image(cloud: Cloud) -> None:
    ecr = cloud.client("ecr")
    ecr.create_repository(repositoryName=f"{BASE}/serving")
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {"mediaType": "x", "size": 1, "digest": f"sha256:{'ab' * 32}"},
            "layers": [],
        }
    )
    ecr.put_image(repositoryName=f"{BASE}/serving", imageManifest=manifest, imageTag="t")


def named(kind: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": [{"Key": "Name", "Value": f"{BASE}-network/x"}]}]


def vpc(cloud: Cloud) -> str:
    created = cloud.client("ec2").create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=named("vpc"))
    return str(created["Vpc"]["VpcId"])


def subnet(cloud: Cloud) -> str:
    created = cloud.client("ec2").create_subnet(VpcId=vpc(cloud), CidrBlock="10.0.0.0/24")
    return str(created["Subnet"]["SubnetId"])


def flow_log(cloud: Cloud) -> None:
    cloud.client("s3").create_bucket(Bucket="flows")
    cloud.client("ec2").create_flow_logs(
        ResourceIds=[vpc(cloud)],
        ResourceType="VPC",
        TrafficType="ALL",
        LogDestinationType="s3",
        LogDestination="arn:aws:s3:::flows",
    )


def pipeline(cloud: Cloud) -> None:
    role = cloud.client("iam").create_role(RoleName="any", AssumeRolePolicyDocument=PIPELINES_TRUST)
    store = {"type": "S3", "location": "any"}
    action = {
        "name": "a",
        "actionTypeId": {"category": "Source", "owner": "AWS", "provider": "S3", "version": "1"},
    }
    cloud.client("codepipeline").create_pipeline(
        pipeline={
            "name": f"{BASE}-pipeline",
            "roleArn": role["Role"]["Arn"],
            "artifactStore": store,
            "stages": [{"name": name, "actions": [action]} for name in ("One", "Two")],
        }
    )


def topic(cloud: Cloud) -> str:
    return str(cloud.client("sns").create_topic(Name=f"{BASE}-alarms")["TopicArn"])


PLANTED: dict[str, Callable[[Cloud], Any]] = {
    "AWS::CloudFormation::Stack": lambda cloud: cloud.client("cloudformation").create_stack(
        StackName=f"{BASE}-foundation", TemplateBody=TEMPLATE
    ),
    "AWS::S3::Bucket": lambda cloud: cloud.client("s3").create_bucket(Bucket=f"{BASE}-logs"),
    "AWS::KMS::Key": lambda cloud: cloud.client("kms").create_key(Description=f"Encrypts all of {BASE}"),
    "AWS::KMS::Alias": lambda cloud: cloud.client("kms").create_alias(
        AliasName=f"alias/{BASE}", TargetKeyId=cloud.client("kms").create_key()["KeyMetadata"]["KeyId"]
    ),
    "AWS::ECR::Repository": lambda cloud: cloud.client("ecr").create_repository(
        repositoryName=f"{BASE}/serving"
    ),
    "AWS::ECR::Image": image,
    "AWS::Logs::LogGroup": lambda cloud: cloud.client("logs").create_log_group(
        logGroupName=f"/aws/sagemaker/Endpoints/{BASE}-x"
    ),
    "AWS::SageMaker::Endpoint": lambda cloud: endpoint(cloud, f"{BASE}-x"),
    "AWS::SageMaker::EndpointConfig": lambda cloud: config(cloud, f"{BASE}-x"),
    "AWS::SageMaker::Model": lambda cloud: sagemaker_model(cloud, f"{BASE}-x"),
    "AWS::SageMaker::ProcessingJob": processing_job,
    "AWS::ApplicationAutoScaling::ScalableTarget": scaled,
    "AWS::ApplicationAutoScaling::ScalingPolicy": policy,
    "AWS::ApplicationAutoScaling::ScheduledAction": scheduled,
    "AWS::CloudWatch::Alarm": lambda cloud: alarm(
        cloud, f"TargetTracking-endpoint/{BASE}-x/variant/main-high"
    ),
    "AWS::CloudWatch::Dashboard": lambda cloud: cloud.client("cloudwatch").put_dashboard(
        DashboardName=f"{BASE}-x_us-east-1", DashboardBody="{}"
    ),
    "AWS::SNS::Topic": topic,
    "AWS::SNS::Subscription": lambda cloud: cloud.client("sns").subscribe(
        TopicArn=topic(cloud), Protocol="email", Endpoint="a@example.com"
    ),
    "AWS::Events::Rule": lambda cloud: cloud.client("events").put_rule(
        Name=f"{BASE}-failed", ScheduleExpression="rate(1 day)"
    ),
    "AWS::IAM::Role": lambda cloud: cloud.client("iam").create_role(
        RoleName=f"{BASE}-endpoint-x-Role-1", AssumeRolePolicyDocument=TRUST
    ),
    "AWS::IAM::ManagedPolicy": lambda cloud: cloud.client("iam").create_policy(
        PolicyName=f"{BASE}-bounds", PolicyDocument=ALLOWED
    ),
    "AWS::SSM::Parameter": lambda cloud: cloud.client("ssm").put_parameter(
        Name=f"/{BASE}/key-arn", Value="x", Type="String"
    ),
    "AWS::CodeBuild::Project": lambda cloud: cloud.client("codebuild").create_project(
        name=f"{BASE}-build-cpu",
        source={"type": "S3", "location": "a/b"},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={"type": "LINUX_CONTAINER", "image": "x", "computeType": "BUILD_GENERAL1_SMALL"},
        serviceRole=ROLE,
    ),
    "AWS::CodePipeline::Pipeline": pipeline,
    "AWS::IAM::OIDCProvider": lambda cloud: cloud.client("iam").create_open_id_connect_provider(
        Url="https://token.example.com",
        ThumbprintList=["ab" * 20],
        Tags=[{"Key": "Name", "Value": f"{BASE}-provider"}],
    ),
    "AWS::EC2::VPC": vpc,
    "AWS::EC2::Subnet": subnet,
    "AWS::EC2::RouteTable": lambda cloud: cloud.client("ec2").create_route_table(VpcId=vpc(cloud)),
    "AWS::EC2::SecurityGroup": lambda cloud: cloud.client("ec2").create_security_group(
        GroupName=f"{BASE}-network-x", Description="x"
    ),
    "AWS::EC2::VPCEndpoint": lambda cloud: cloud.client("ec2").create_vpc_endpoint(
        VpcId=vpc(cloud), ServiceName="com.amazonaws.us-east-1.s3"
    ),
    "AWS::EC2::NetworkInterface": lambda cloud: cloud.client("ec2").create_network_interface(
        SubnetId=subnet(cloud)
    ),
    "AWS::EC2::NetworkAcl": lambda cloud: cloud.client("ec2").create_network_acl(VpcId=vpc(cloud)),
    "AWS::EC2::FlowLog": flow_log,
}
"""How somebody would leave a resource of each sort behind."""


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
    PLANTED[kind](cloud)
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


@pytest.mark.parametrize(
    ("arn", "kind", "name"),
    [
        ("arn:aws:s3:::a-bucket", "AWS::S3::Bucket", "a-bucket"),
        ("arn:aws:kms:r:1:key/k-1", "AWS::KMS::Key", "k-1"),
        ("arn:aws:ecr:r:1:repository/t-dev/serving", "AWS::ECR::Repository", "t-dev/serving"),
        ("arn:aws:logs:r:1:log-group:/t-dev/builds", "AWS::Logs::LogGroup", "/t-dev/builds"),
        ("arn:aws:logs:r:1:log-group:/t-dev/builds:*", "AWS::Logs::LogGroup", "/t-dev/builds"),
        ("arn:aws:sagemaker:r:1:model/m", "AWS::SageMaker::Model", "arn:aws:sagemaker:r:1:model/m"),
        (
            "arn:aws:sagemaker:r:1:endpoint-config/c",
            "AWS::SageMaker::EndpointConfig",
            "arn:aws:sagemaker:r:1:endpoint-config/c",
        ),
        ("arn:aws:cloudwatch:r:1:alarm:a/b", "AWS::CloudWatch::Alarm", "a/b"),
        ("arn:aws:cloudwatch::1:dashboard/d", "AWS::CloudWatch::Dashboard", "d"),
        ("arn:aws:sns:r:1:t", "AWS::SNS::Topic", "arn:aws:sns:r:1:t"),
        ("arn:aws:events:r:1:rule/x", "AWS::Events::Rule", "x"),
        ("arn:aws:ssm:r:1:parameter/t-dev/key", "AWS::SSM::Parameter", "/t-dev/key"),
        ("arn:aws:codebuild:r:1:project/p", "AWS::CodeBuild::Project", "p"),
        ("arn:aws:ec2:r:1:vpc-endpoint/v", "AWS::EC2::VPCEndpoint", "v"),
        ("arn:aws:ec2:r:1:vpc/v", "AWS::EC2::VPC", "v"),
        ("arn:aws:cloudformation:r:1:stack/s/uuid", "AWS::CloudFormation::Stack", "s"),
        ("arn:aws:lambda:r:1:function:f", "lambda:function", "arn:aws:lambda:r:1:function:f"),
        ("arn:aws:sqs:r:1:q", "sqs:resource", "arn:aws:sqs:r:1:q"),
    ],
)
def test_arns_are_formed_as_in_cloudformation(arn, kind, name):
    assert type_and_id(arn) == (kind, name)


def test_resources_with_other_names_are_found_by_tags(cloud):
    tags = {"project": "tritonstack", "environment": "dev"}
    cloud.client("logs").create_log_group(logGroupName="somewhere-else", tags=tags)
    cloud.client("logs").create_log_group(logGroupName="others", tags={**tags, "environment": "two"})
    assert [item.key for item in tagged(cloud, SCOPE)] == [("AWS::Logs::LogGroup", "somewhere-else")]


GONE = [
    "arn:aws:s3:::gone",
    "arn:aws:logs:us-east-1:1:log-group:gone",
    "arn:aws:ecr:us-east-1:1:repository/gone",
    "arn:aws:kms:us-east-1:1:key/12345678-1234-1234-1234-123456789012",
    "arn:aws:sagemaker:us-east-1:1:model/gone",
    "arn:aws:sagemaker:us-east-1:1:endpoint-config/gone",
    "arn:aws:sagemaker:us-east-1:1:endpoint/gone",
    "arn:aws:sagemaker:us-east-1:1:processing-job/gone",
    "arn:aws:cloudwatch:us-east-1:1:alarm:gone",
    "arn:aws:cloudwatch::1:dashboard/gone",
    "arn:aws:sns:us-east-1:123456789012:gone",
    "arn:aws:events:us-east-1:1:rule/gone",
    "arn:aws:ssm:us-east-1:1:parameter/gone",
    "arn:aws:codebuild:us-east-1:1:project/gone",
    "arn:aws:codepipeline:us-east-1:1:gone",
    "arn:aws:cloudformation:us-east-1:1:stack/gone/1",
]


def test_deleted_resources_that_are_still_tagged_are_omitted(cloud):
    lists: Lists = {}
    tagged_resources = [
        AwsResource(*type_and_id(arn)) for arn in (*GONE, "arn:aws:lambda:us-east-1:1:function:nobody-asks")
    ]
    assert [item.type for item in tagged_resources if still_there(cloud, item, lists)] == ["lambda:function"]


@pytest.mark.parametrize("kind", sorted({type_and_id(arn)[0] for arn in GONE} & PLANTED.keys()))
def test_existing_resources_are_not_reported_as_deleted(cloud, kind):
    PLANTED[kind](cloud)
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
    assert decided(bucket("a-bucket"), standing) == [MINE]
    assert decided(bucket("b-bucket"), standing) == [None]
    assert decided(AwsResource("lambda:function", "x", {STACK_TAG: MINE}), standing) == [MINE]
    assert decided(AwsResource("lambda:function", "x", {STACK_TAG: "gone"}), standing) == [None]
    part = AwsResource("AWS::EC2::NetworkInterface", "eni", within=("AWS::S3::Bucket", "a-bucket"))
    assert decided(part, standing) == [MINE]
    assert decided(AwsResource("AWS::CloudFormation::Stack", MINE), standing) == [MINE]


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


def test_what_a_stack_has_retained_on_purpose_is_its_own_while_it_exists():
    standing = owned(a_bucket=MINE)
    retained = AwsResource("AWS::SageMaker::Model", "m", {naming.OWNER_TAG: MINE})
    assert decided(retained, standing) == [MINE]
    assert decided(retained, owned()) == [None]


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
    report = audit(cloud, SCOPE)
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
    report = audit(cloud, AuditScope(BASE))
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
