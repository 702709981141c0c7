"""Recover from failed deployments: every stack can be used or deleted, and nothing leaks."""

import threading

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.cloudformation.stacks import StackDriver, broken, parameter, resource


def names(stack):
    return sorted(item["Name"] for item in stack.account.client("ssm").describe_parameters()["Parameters"])


def nothing_left(stack):
    return [item for item in stack.account.inventory() if not item.get("pending_deletion")] == []


FIRST = {"Root": parameter("r", Name="/root"), "Leaf": parameter({"Ref": "Root"}, Name="/leaf")}
MOVED = {**FIRST, "Root": parameter("r", Name="/root2")}


def store(stack, **properties):
    """A bucket with a unique name."""
    return resource("AWS::S3::Bucket", BucketName=f"store-{stack.account.account_id}", **properties)


def tagged(stack):
    return store(stack, Tags=[{"Key": "a", "Value": "b"}])


def stuck(stack):
    """Bring a stack to UPDATE_ROLLBACK_FAILED by deleting its bucket during the update."""
    stack.create({**FIRST, "Store": store(stack)})
    after = {**MOVED, "Store": {**tagged(stack), "DependsOn": "Leaf"}, "New": parameter(Name="/new")}
    stack.update({**after, "Bad": broken("Store")}, DisableRollback=True)
    stack.account.client("s3").delete_bucket(Bucket=f"store-{stack.account.account_id}")
    stack.cloudformation.rollback_stack(StackName="stack")
    assert stack.settled() == "UPDATE_ROLLBACK_FAILED"


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


def test_deleting_a_failed_stack_deletes_replaced_resources(stack):
    stack.create(FIRST)
    assert stack.update({**MOVED, "Bad": broken("Leaf")}, DisableRollback=True) == "UPDATE_FAILED"
    assert names(stack) == ["/leaf", "/root", "/root2"]
    assert stack.delete() == "DELETE_COMPLETE"
    assert nothing_left(stack)


def test_a_failed_rollback_rejects_updates_and_can_be_deleted(stack):
    stuck(stack)
    with pytest.raises(ClientError, match="UPDATE_ROLLBACK_FAILED state and can not be updated"):
        stack.update(FIRST)
    assert stack.delete() == "DELETE_COMPLETE"
    assert nothing_left(stack)


def test_a_failed_rollback_continues_without_skipped_resources(stack):
    stuck(stack)
    stack.cloudformation.continue_update_rollback(StackName="stack", ResourcesToSkip=["Store"])
    assert stack.settled() == "UPDATE_ROLLBACK_COMPLETE"
    assert names(stack) == ["/leaf", "/root"]
    with pytest.raises(ClientError, match="No updates"):
        stack.update({**FIRST, "Store": store(stack)})
    assert stack.delete() == "DELETE_COMPLETE"
    assert nothing_left(stack)


def test_a_stack_whose_creation_failed_can_only_be_deleted(stack):
    assert stack.create({**FIRST, "Bad": broken("Leaf")}) == "ROLLBACK_COMPLETE"
    assert names(stack) == []
    with pytest.raises(ClientError, match="ROLLBACK_COMPLETE state and can not be updated"):
        stack.update(FIRST)
    with pytest.raises(ClientError, match="ROLLBACK_COMPLETE"):
        stack.propose(FIRST)
    with pytest.raises(ClientError, match="already exists"):
        stack.create(FIRST)
    # GetTemplate returns the template that failed.
    assert "broken" in str(stack.cloudformation.get_template(StackName="stack")["TemplateBody"])
    assert stack.delete() == "DELETE_COMPLETE"
    assert stack.create(FIRST) == "CREATE_COMPLETE"


def test_undeletable_resources_can_be_retained(stack):
    stack.create({"Store": store(stack), "P": parameter(Name="/p")})
    stack.account.client("s3").put_object(Bucket=f"store-{stack.account.account_id}", Key="k", Body=b"")
    with pytest.raises(ClientError, match="DELETE_FAILED only"):
        stack.delete(RetainResources=["Store"])
    assert stack.delete() == "DELETE_FAILED"
    assert stack.delete(RetainResources=["Store"]) == "DELETE_COMPLETE"
    assert [item["id"] for item in stack.account.inventory()] == [f"store-{stack.account.account_id}"]


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
    assert all("can not be updated" in reason for reason in rejected)
    assert stack.delete() == "DELETE_COMPLETE"
    assert nothing_left(stack)
