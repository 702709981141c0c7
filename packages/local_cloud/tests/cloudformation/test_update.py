"""Updates: plans, replacements, and rollback of failures."""

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.cloudformation.stacks import broken, parameter, resource

CHAIN = {
    "Root": parameter("r", Name="/root"),
    "Middle": parameter({"Ref": "Root"}, Name="/middle"),
    "Leaf": parameter({"Fn::GetAtt": ["Middle", "Value"]}, Name="/leaf"),
    "Aside": parameter("aside", Name="/aside"),
}


def test_a_replacement_updates_its_dependents(stack):
    stack.create(CHAIN)
    moved = {**CHAIN, "Root": parameter("r", Name="/root2")}
    assert stack.changes(moved) == {
        "Root": ("Modify", "True"),
        "Middle": ("Modify", "False"),
        "Leaf": ("Modify", "False"),
    }
    assert stack.update(moved) == "UPDATE_COMPLETE"
    assert stack.parameters()["/leaf"] == "/root2"
    assert list(stack.parameters()) == ["/aside", "/leaf", "/middle", "/root2"]
    happened = stack.events()
    assert happened.index(("Leaf", "UPDATE_COMPLETE")) < happened.index(("Root", "DELETE_IN_PROGRESS"))
    assert ("Aside", "UPDATE_IN_PROGRESS") not in happened


def test_an_in_place_change_updates_only_its_readers(stack):
    stack.create(CHAIN)
    assert stack.changes({**CHAIN, "Root": parameter("changed", Name="/root")}) == {
        "Root": ("Modify", "False")
    }


def test_a_new_name_replaces_resources_with_create_only_references(stack):
    first = {
        "Key": parameter("bucket-one"),
        "Store": resource("AWS::S3::Bucket", BucketName={"Fn::GetAtt": ["Key", "Value"]}),
        "Policy": resource(
            "AWS::S3::BucketPolicy",
            Bucket={"Ref": "Store"},
            PolicyDocument={"Version": "2012-10-17", "Statement": []},
        ),
    }
    stack.create(first)
    second = {**first, "Key": parameter("bucket-two")}
    assert stack.changes(second) == {
        "Key": ("Modify", "False"),
        "Store": ("Modify", "Conditional"),
        "Policy": ("Modify", "Conditional"),
    }
    assert stack.update(second) == "UPDATE_COMPLETE"
    buckets = stack.account.client("s3").list_buckets()["Buckets"]
    assert [bucket["Name"] for bucket in buckets] == ["bucket-two"]
    assert stack.physical_ids()["Policy"] == "bucket-two"


def test_additions_and_removals(stack):
    stack.create({"A": parameter(Name="/a"), "B": parameter({"Ref": "A"}, Name="/b")})
    after = {"B": parameter("alone", Name="/b"), "C": parameter(Name="/c")}
    assert stack.changes(after) == {
        "A": ("Remove", None),
        "B": ("Modify", "False"),
        "C": ("Add", None),
    }
    assert stack.update(after) == "UPDATE_COMPLETE"
    assert list(stack.parameters()) == ["/b", "/c"]
    assert stack.physical_ids() == {"B": "/b", "C": "/c"}


def test_an_update_without_changes_is_reported(stack):
    stack.create(CHAIN)
    with pytest.raises(ClientError, match="No updates are to be performed"):
        stack.update(CHAIN)
    plan = stack.propose(CHAIN)
    assert plan["Status"] == "FAILED"
    assert "didn't contain changes" in plan["StatusReason"]  # the CDK reads it
    assert plan["Changes"] == []
    with pytest.raises(ClientError, match="No updates"):
        stack.update(CHAIN, Capabilities=[])
    assert stack.update(CHAIN, Tags=[{"Key": "team", "Value": "search"}]) == "UPDATE_COMPLETE"


def test_a_failed_update_rolls_back_and_can_be_retried(stack):
    before = {**CHAIN, "Old": parameter(Name="/old")}
    stack.create(before, Outputs={"O": {"Value": {"Fn::GetAtt": ["Leaf", "Value"]}}})
    after = {
        "Root": parameter("r", Name="/root2"),
        "Middle": parameter({"Ref": "Root"}, Name="/middle"),
        "Leaf": parameter("changed", Name="/leaf"),
        "New": parameter(Name="/new"),
    }
    failing = {**after, "Bad": broken("Leaf"), "Later": parameter({"Ref": "Bad"})}
    failing["Leaf"] = {**failing["Leaf"], "DependsOn": ["Middle", "New"]}
    assert stack.update(failing) == "UPDATE_ROLLBACK_COMPLETE"
    assert list(stack.parameters()) == ["/aside", "/leaf", "/middle", "/old", "/root"]
    assert stack.parameters()["/middle"] == "/root"
    assert stack.parameters()["/leaf"] == "/root"
    assert stack.outputs() == {"O": "/root"}
    assert "no-such-key" in stack.reasons()
    assert set(stack.physical_ids().values()) >= {"/aside", "/leaf", "/middle", "/old", "/root"}
    with pytest.raises(ClientError, match="No updates"):
        stack.update(before, Outputs={"O": {"Value": {"Fn::GetAtt": ["Leaf", "Value"]}}})

    assert stack.update(after) == "UPDATE_COMPLETE"
    assert list(stack.parameters()) == ["/leaf", "/middle", "/new", "/root2"]
    assert stack.parameters()["/middle"] == "/root2"
    assert stack.delete() == "DELETE_COMPLETE"
    assert list(stack.parameters()) == []


def test_a_custom_name_cannot_be_replaced(stack):
    repository = resource("AWS::ECR::Repository", RepositoryName="mine")
    stack.create({"R": repository})
    kms = {"EncryptionType": "KMS"}
    encrypted = resource("AWS::ECR::Repository", RepositoryName="mine", EncryptionConfiguration=kms)
    assert stack.changes({"R": encrypted}) == {"R": ("Modify", "True")}
    assert stack.update({"R": encrypted}) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Rename mine" in stack.reasons()
    assert stack.account.client("ecr").describe_repositories()["repositories"][0]["repositoryName"] == "mine"


def test_replaced_resources_can_be_retained(stack):
    kept = {**parameter(Name="/one"), "UpdateReplacePolicy": "Retain"}
    stack.create({"P": kept})
    stack.update({"P": {**parameter(Name="/two"), "UpdateReplacePolicy": "Retain"}})
    assert list(stack.parameters()) == ["/one", "/two"]


def test_stack_tags_are_applied_to_resources(stack):
    resources = {
        "Topic": resource("AWS::SNS::Topic", TopicName="t"),
        "Parameter": parameter(Name="/p", Tags={"owner": "me"}),
    }
    given = [{"Key": "owner", "Value": "team"}, {"Key": "expires", "Value": "2026-11-22T08:30:00Z"}]
    assert stack.create(resources, Tags=given) == "CREATE_COMPLETE"

    def found():
        client = stack.account.client
        topic = client("sns").list_tags_for_resource(ResourceArn=stack.physical_ids()["Topic"])["Tags"]
        value = client("ssm").list_tags_for_resource(ResourceType="Parameter", ResourceId="/p")["TagList"]
        return [{tag["Key"]: tag["Value"] for tag in tags} for tags in (topic, value)]

    stacks = {"owner": "team", "expires": "2026-11-22T08:30:00Z"}
    assert found() == [stacks, {**stacks, "owner": "me"}]
    # A changed stack tag changes every resource that has it.
    assert stack.changes(resources, Tags=given[:1]) == dict.fromkeys(resources, ("Modify", "False"))
    assert stack.update(resources, Tags=given[:1]) == "UPDATE_COMPLETE"
    assert found() == [{"owner": "team"}, {"owner": "me"}]


def test_a_property_that_cannot_change_is_rejected_and_nothing_is_undone(stack):
    group = resource("AWS::Logs::LogGroup", LogGroupName="/g", KmsKeyId="arn:aws:kms:eu-west-1:1:key/k")
    stack.create({"G": group})
    plain = resource("AWS::Logs::LogGroup", LogGroupName="/g")
    assert stack.update({"G": plain}) == "UPDATE_ROLLBACK_COMPLETE"
    assert "KmsKeyId cannot be changed" in stack.reasons()
    assert ("G", "UPDATE_COMPLETE") not in stack.events()


def test_tags_change_with_the_previous_template(stack):
    stack.create({"P": parameter(Name="/p")})
    tags = [{"Key": "team", "Value": "search"}]
    stack.cloudformation.update_stack(StackName="stack", UsePreviousTemplate=True, Tags=tags)
    assert (stack.settled(), stack.described()["Tags"]) == ("UPDATE_COMPLETE", tags)
