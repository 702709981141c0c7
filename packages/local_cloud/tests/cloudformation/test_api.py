"""The API apart from deployments: templates, lists, and errors."""

import json

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.cloudformation.stacks import parameter, resource

BODY = json.dumps(
    {
        "Description": "said",
        "Parameters": {"Size": {"Type": "String", "Default": "s", "Description": "how big", "NoEcho": True}},
        "Resources": {"R": resource("AWS::IAM::Role", AssumeRolePolicyDocument={}), "P": parameter()},
    }
)


def test_get_template_returns_the_submitted_template(stack):
    stack.create({"P": parameter()})
    for stage in ("Original", "Processed"):
        body = stack.cloudformation.get_template(StackName="stack", TemplateStage=stage)["TemplateBody"]
        assert body["Resources"]["P"] == parameter()


def test_a_template_is_read_from_this_clouds_s3(stack):
    s3 = stack.account.client("s3")
    s3.create_bucket(
        Bucket="templates-of-mine", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    s3.put_object(
        Bucket="templates-of-mine", Key="a/b.json", Body=json.dumps({"Resources": {"P": parameter()}})
    )
    for url in (
        f"{stack.account.endpoint_url}/templates-of-mine/a/b.json",
        "https://templates-of-mine.s3.eu-west-1.amazonaws.com/a/b.json",
        "https://s3.eu-west-1.amazonaws.com/templates-of-mine/a/b.json",
    ):
        assert stack.cloudformation.get_template_summary(TemplateURL=url)["Parameters"] == []
    with pytest.raises(ClientError, match="S3 error"):
        stack.cloudformation.get_template_summary(
            TemplateURL=f"{stack.account.endpoint_url}/templates-of-mine/none"
        )


def template_of(size):
    """Return a template of this many bytes."""
    text = json.dumps({"Description": "é", "Resources": {"P": parameter()}}, ensure_ascii=False)
    return text + " " * (size - len(text.encode()))


def test_templates_are_limited_as_by_aws(stack):
    s3, summarize = stack.account.client("s3"), stack.cloudformation.get_template_summary
    bucket = f"templates-{stack.account.account_id}"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    in_s3 = {"TemplateURL": f"{stack.account.endpoint_url}/{bucket}/k"}

    def with_resources(count):
        return json.dumps({"Resources": {f"P{number}": {"Type": "T"} for number in range(count)}})

    def outcome(body, key):
        s3.put_object(Bucket=bucket, Key="k", Body=body)
        try:
            summarize(**({"TemplateBody": body} if key == "TemplateBody" else in_s3))
        except ClientError as error:
            return error.response["Error"]["Code"]
        return None

    assert outcome(template_of(51_200), "TemplateBody") is None
    assert outcome(template_of(51_201), "TemplateBody") == "ValidationError"
    assert outcome(template_of(1_000_000), "TemplateURL") is None
    assert outcome(template_of(1_000_001), "TemplateURL") == "ValidationError"
    assert outcome(with_resources(500), "TemplateBody") is None
    assert outcome(with_resources(501), "TemplateBody") == "ValidationError"


def test_lists(stack):
    stack.create({"P": parameter(Name="/p")})
    cloudformation = stack.cloudformation
    assert [item["StackName"] for item in cloudformation.list_stacks()["StackSummaries"]] == ["stack"]
    summaries = cloudformation.list_stack_resources(StackName="stack")["StackResourceSummaries"]
    assert [(item["LogicalResourceId"], item["PhysicalResourceId"]) for item in summaries] == [("P", "/p")]
    detail = cloudformation.describe_stack_resource(StackName="stack", LogicalResourceId="P")
    assert detail["StackResourceDetail"]["ResourceStatus"] == "CREATE_COMPLETE"
    found = cloudformation.describe_stack_resources(PhysicalResourceId="/p")["StackResources"]
    assert found[0]["StackName"] == "stack"
    stack.delete()
    gone = cloudformation.list_stacks(StackStatusFilter=["DELETE_COMPLETE"])["StackSummaries"]
    assert [item["StackName"] for item in gone] == ["stack"]


@pytest.mark.filterwarnings("ignore:.*does not match an error shape")
def test_an_unknown_action_is_named(stack):
    with pytest.raises(ClientError, match="DetectStackDrift") as caught:
        stack.cloudformation.detect_stack_drift(StackName="stack")
    assert caught.value.response["Error"]["Code"] == "InvalidAction"


def test_an_unsupported_parameter_is_rejected(stack):
    with pytest.raises(ClientError, match="StackPolicyBody"):
        stack.cloudformation.create_stack(
            StackName="stack", TemplateBody=BODY, StackPolicyBody="{}", Capabilities=["CAPABILITY_IAM"]
        )


@pytest.mark.parametrize("name", ["1st", "under_score", "a" * 129])
def test_an_invalid_stack_name_is_rejected(stack, name):
    with pytest.raises(ClientError, match="stackName"):
        stack.cloudformation.create_stack(
            StackName=name, TemplateBody=json.dumps({"Resources": {"P": parameter()}})
        )


def test_stack_names_are_unique(stack):
    stack.create({"P": parameter()})
    with pytest.raises(ClientError) as caught:
        stack.create({"P": parameter()})
    assert caught.value.response["Error"]["Code"] == "AlreadyExistsException"
