"""GetResources finds tagged resources of all services."""

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.cloudformation.stacks import StackDriver, parameter, resource

TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "codebuild.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}
MINE = [{"Key": "owner", "Value": "team"}, {"Key": "expires", "Value": "2026-11-22T08:30:00Z"}]
IMAGE = "746614075791.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-tritonserver:24.09-py3"


@pytest.fixture
def tagging(account):
    return account.client("resourcegroupstaggingapi")


def kinds_in(listed):
    arns = [item["ResourceARN"].split(":", 5) for item in listed["ResourceTagMappingList"]]
    return sorted(f"{arn[2]}:{arn[5].split('/')[0].split(':')[0]}" for arn in arns)


def everything():
    """One resource of each type that supports tags and needs no other resource."""
    role = {"Fn::GetAtt": ["Role", "Arn"]}
    return {
        "Role": resource("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST),
        "Provider": resource("AWS::IAM::OIDCProvider", Url="https://example.com"),
        "Key": resource("AWS::KMS::Key", KeyPolicy={"Version": "2012-10-17", "Statement": []}),
        "Bucket": resource("AWS::S3::Bucket"),
        "Repository": resource("AWS::ECR::Repository"),
        "Topic": resource("AWS::SNS::Topic"),
        "Group": resource("AWS::Logs::LogGroup"),
        "Parameter": parameter(),
        "Rule": resource("AWS::Events::Rule", ScheduleExpression="rate(1 day)"),
        "Vpc": resource("AWS::EC2::VPC", CidrBlock="10.0.0.0/16"),
        "Project": resource(
            "AWS::CodeBuild::Project",
            ServiceRole=role,
            Artifacts={"Type": "NO_ARTIFACTS"},
            Source={"Type": "NO_SOURCE", "BuildSpec": "version: 0.2\nphases: {build: {commands: [ls]}}"},
            Environment={
                "Type": "LINUX_CONTAINER",
                "ComputeType": "BUILD_GENERAL1_SMALL",
                "Image": "aws/codebuild/standard:7.0",
            },
        ),
        "Model": resource("AWS::SageMaker::Model", ExecutionRoleArn=role, PrimaryContainer={"Image": IMAGE}),
    }


def test_stack_tags_find_all_its_resources(account, tagging):
    stack = StackDriver(account)
    assert stack.create(everything(), Tags=MINE) == "CREATE_COMPLETE", stack.reasons()
    account.client("s3").create_bucket(
        Bucket=f"not-mine-{account.account_id}",
        CreateBucketConfiguration={"LocationConstraint": "eu-west-1"},
    )
    found = tagging.get_resources(TagFilters=[{"Key": "owner", "Values": ["other", "team"]}])
    # No role: AWS never lists roles. No OIDC provider: it is global, and listed in us-east-1 only.
    assert kinds_in(found) == [
        "cloudformation:stack",
        "codebuild:project",
        "ec2:vpc",
        "ecr:repository",
        "events:rule",
        "kms:key",
        "logs:log-group",
        f"s3:{stack.physical_ids()['Bucket']}",
        "sagemaker:model",
        f"sns:{stack.physical_ids()['Topic'].split(':')[-1]}",
        "ssm:parameter",
    ]
    model = next(item for item in found["ResourceTagMappingList"] if ":sagemaker:" in item["ResourceARN"])
    assert sorted(model["Tags"], key=str) == sorted(MINE, key=str)
    assert stack.delete() == "DELETE_COMPLETE"
    left = tagging.get_resources(TagFilters=[{"Key": "owner"}])
    assert kinds_in(left) == ["kms:key"], "a key waits to be deleted"


def test_filters_and_pages(account, tagging):
    ssm = account.client("ssm")
    for number in range(5):
        tags = [{"Key": "number", "Value": str(number)}, {"Key": "odd", "Value": str(number % 2)}]
        ssm.put_parameter(Name=f"/p/{number}", Value="v", Type="String", Tags=tags)
    account.client("sns").create_topic(Name="t", Tags=[{"Key": "odd", "Value": "1"}])

    def names(**asked):
        pages = tagging.get_paginator("get_resources").paginate(**asked, PaginationConfig={"PageSize": 2})
        return [
            item["ResourceARN"].rsplit(":", 1)[1] for page in pages for item in page["ResourceTagMappingList"]
        ]

    odd = {"Key": "odd", "Values": ["1"]}
    assert names(TagFilters=[odd]) == ["t", "parameter/p/1", "parameter/p/3"]
    assert names(TagFilters=[odd, {"Key": "number", "Values": ["3", "4"]}]) == ["parameter/p/3"]
    assert names(TagFilters=[odd], ResourceTypeFilters=["sns"]) == ["t"]
    assert len(names(ResourceTypeFilters=["ssm:parameter"])) == 5
    assert names(TagFilters=[{"Key": "even"}]) == []
    with pytest.raises(ClientError, match="ResourceARNList"):
        tagging.get_resources(ResourceARNList=["arn:aws:sns:eu-west-1:111122223333:t"])


def test_tags_added_and_removed_later(account, tagging):
    sagemaker = account.client("sagemaker")
    arn = sagemaker.create_model(
        ModelName="m",
        ExecutionRoleArn=f"arn:aws:iam::{account.account_id}:role/r",
        PrimaryContainer={"Image": IMAGE},
    )["ModelArn"]
    sagemaker.add_tags(ResourceArn=arn, Tags=MINE)
    assert kinds_in(tagging.get_resources(ResourceTypeFilters=["sagemaker:model"])) == ["sagemaker:model"]
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["owner", "expires"])
    assert kinds_in(tagging.get_resources()) == []
