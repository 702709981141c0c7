"""The API apart from deployments: templates, lists, and errors."""

import json

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.cloudformation.stacks import parameter


def test_get_template_returns_the_submitted_template(stack):
    stack.create({"P": parameter()})
    for stage in ("Original", "Processed"):
        body = stack.cloudformation.get_template(StackName="stack", TemplateStage=stage)["TemplateBody"]
        assert body["Resources"]["P"] == parameter()


def template_of(size, count=1):
    """Return a template of this many bytes and resources."""
    resources = {f"P{number}": parameter(Name=f"/{number}") for number in range(count)}
    text = json.dumps({"Description": "é", "Resources": resources}, ensure_ascii=False)
    return text + " " * (size - len(text.encode()))


URLS = (
    "{endpoint}/{bucket}/a/b.json",
    "https://{bucket}.s3.eu-west-1.amazonaws.com/a/b.json",
    "https://s3.eu-west-1.amazonaws.com/{bucket}/a/b.json",
)


def test_templates_are_read_from_s3_and_limited_as_by_aws(stack):
    s3, bucket = stack.account.client("s3"), f"templates-{stack.account.account_id}"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})

    def outcome(body, url=None):
        s3.put_object(Bucket=bucket, Key="a/b.json", Body=body)
        if url is None:
            template = {"TemplateBody": body}
        else:
            template = {"TemplateURL": url.format(endpoint=stack.account.endpoint_url, bucket=bucket)}
        change_set = {"ChangeSetName": "c", "ChangeSetType": "CREATE", "StackName": "stack"}
        try:
            stack.cloudformation.create_change_set(**change_set, **template)
        except ClientError as error:
            return error.response["Error"]["Code"]
        return stack.cloudformation.delete_stack(StackName="stack") and None

    assert [outcome(template_of(1_000_000), url) for url in URLS] == [None] * 3
    assert outcome(template_of(1_000_001), URLS[0]) == "ValidationError"
    assert outcome(template_of(0), URLS[0].replace("a/b", "none")) == "ValidationError"
    assert outcome(template_of(51_200)) is None
    assert outcome(template_of(51_201)) == "ValidationError"
    assert outcome(template_of(0, 501)) == "ValidationError"


def test_lists(stack):
    stack.create({"P": parameter(Name="/p")})
    cloudformation = stack.cloudformation
    assert [item["StackName"] for item in cloudformation.list_stacks()["StackSummaries"]] == ["stack"]
    summaries = cloudformation.list_stack_resources(StackName="stack")["StackResourceSummaries"]
    assert [(item["LogicalResourceId"], item["PhysicalResourceId"]) for item in summaries] == [("P", "/p")]
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


@pytest.mark.parametrize(
    "given",
    [
        {"StackPolicyBody": "{}"},
        {"DisableRollback": True},
        {"OnFailure": "DELETE"},
        {"NotificationARNs": ["arn:aws:sns:eu-west-1:111122223333:t"]},
        {"DeploymentConfig": {"Mode": "EXPRESS"}},
    ],
    ids=lambda given: next(iter(given)),
)
def test_an_unsupported_parameter_is_rejected(stack, given):
    with pytest.raises(ClientError, match=next(iter(given))):
        stack.create({"P": parameter()}, **given)
    assert stack.cloudformation.describe_stacks()["Stacks"] == []


def test_parameters_with_their_default_change_nothing(stack):
    usual = {"DisableRollback": False, "OnFailure": "ROLLBACK", "DeploymentConfig": {"Mode": "STANDARD"}}
    assert stack.create({"P": parameter()}, **usual) == "CREATE_COMPLETE"


@pytest.mark.parametrize("name", ["1st", "under_score", "a" * 129])
def test_an_invalid_stack_name_is_rejected(stack, name):
    with pytest.raises(ClientError, match="stackName"):
        stack.cloudformation.create_stack(
            StackName=name, TemplateBody=json.dumps({"Resources": {"P": parameter()}})
        )
