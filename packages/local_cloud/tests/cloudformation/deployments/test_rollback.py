"""Recover from failed deployments: every stack can be used or deleted, and nothing leaks."""

import threading

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.cloudformation.stacks import StackDriver, broken, parameter, resource


def nothing_left(stack):
    return [item for item in stack.account.inventory() if not item.get("pending_deletion")] == []


FIRST = {"Root": parameter("r", Name="/root"), "Leaf": parameter({"Ref": "Root"}, Name="/leaf")}


def test_a_replacement_of_a_failed_update_is_kept_if_still_needed(stack):
    """The replacement was created and failed; the stack uses the old resource again."""
    stack.create({"Store": resource("AWS::S3::Bucket", BucketName="old")})
    bad_settings = {"LoggingConfiguration": {"DestinationBucketName": "no-such-bucket"}}
    replaced = resource("AWS::S3::Bucket", BucketName="new", **bad_settings)
    assert stack.update({"Store": replaced}, DisableRollback=True) == "UPDATE_FAILED"
    buckets = stack.account.client("s3").list_buckets()["Buckets"]
    assert sorted(bucket["Name"] for bucket in buckets) == ["new", "old"]
    wanted = {"Store": resource("AWS::S3::Bucket", BucketName="old"), "P": parameter(Name="/p")}
    assert stack.update(wanted) == "UPDATE_COMPLETE"
    buckets = stack.account.client("s3").list_buckets()["Buckets"]
    assert [bucket["Name"] for bucket in buckets] == ["old"]
    assert stack.delete() == "DELETE_COMPLETE"
    assert nothing_left(stack)


def test_a_stack_whose_creation_failed_can_only_be_deleted(stack):
    assert stack.create({**FIRST, "Bad": broken("Leaf")}) == "ROLLBACK_COMPLETE"
    assert stack.parameters() == {}
    with pytest.raises(ClientError, match="ROLLBACK_COMPLETE"):
        stack.update(FIRST)
    with pytest.raises(ClientError, match="ROLLBACK_COMPLETE"):
        stack.propose(FIRST)
    with pytest.raises(ClientError, match="already exists"):
        stack.create(FIRST)
    # GetTemplate returns the template that failed.
    assert "broken" in str(stack.cloudformation.get_template(StackName="stack")["TemplateBody"])
    assert stack.delete() == "DELETE_COMPLETE"
    assert stack.create(FIRST) == "CREATE_COMPLETE"


def test_manually_deleted_resources_do_not_block_removal_or_deletion(stack):
    ssm = stack.account.client("ssm")
    stack.create({**FIRST, "Aside": parameter(Name="/aside"), "Gone": parameter(Name="/gone")})
    for name in ("/aside", "/gone", "/root"):
        ssm.delete_parameter(Name=name)
    # Unchanged resources are not checked; the resource removed from the template is already deleted.
    after = {**FIRST, "Gone": parameter(Name="/gone"), "More": parameter(Name="/more")}
    assert stack.update(after) == "UPDATE_COMPLETE"
    assert stack.delete() == "DELETE_COMPLETE"
    assert nothing_left(stack)


def test_a_stack_runs_one_operation_at_a_time(stack):
    stack.create(FIRST)
    rejected = []

    def update(number):
        try:
            StackDriver(stack.account).update({**FIRST, f"P{number}": parameter(str(number))})
        except ClientError as error:
            rejected.append(str(error))

    threads = [threading.Thread(target=update, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stack.settled() == "UPDATE_COMPLETE"
    assert all("_IN_PROGRESS" in reason for reason in rejected)
    assert stack.delete() == "DELETE_COMPLETE"
    assert nothing_left(stack)
