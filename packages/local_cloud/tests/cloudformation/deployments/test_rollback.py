"""Recover from failed deployments: every stack can be used or deleted, and nothing leaks."""

import threading
import time

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


def test_only_failed_resources_can_be_skipped(stack):
    stuck(stack)
    with pytest.raises(ClientError, match="Leaf"):
        stack.cloudformation.continue_update_rollback(StackName="stack", ResourcesToSkip=["Leaf"])


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


def test_a_failed_rollback_of_a_creation_can_be_retried(stack):
    s3 = stack.account.client("s3")

    def put_something_in():
        while True:
            try:
                s3.put_object(Bucket="in-the-way", Key="k", Body=b"")
            except ClientError:
                time.sleep(0.005)
            else:
                return

    filler = threading.Thread(target=put_something_in)
    filler.start()
    slow = {f"P{number}": parameter(str(number), Name=f"/p/{number}") for number in range(30)}
    slow = {
        name: body | ({"DependsOn": f"P{number - 1}"} if number else {"DependsOn": "Store"})
        for number, (name, body) in enumerate(slow.items())
    }
    in_the_way = resource("AWS::S3::Bucket", BucketName="in-the-way")
    assert stack.create({"Store": in_the_way, **slow, "Bad": broken("P29")}) == "ROLLBACK_FAILED"
    filler.join()
    assert "Store" in stack.described()["StackStatusReason"]
    s3.delete_object(Bucket="in-the-way", Key="k")
    assert stack.delete() == "DELETE_COMPLETE"
    assert nothing_left(stack)


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


def test_manually_deleted_resources_cannot_be_updated(stack):
    stack.create({"Store": store(stack), "P": parameter("one", Name="/p")})
    stack.account.client("s3").delete_bucket(Bucket=f"store-{stack.account.account_id}")
    assert (
        stack.update({"Store": tagged(stack), "P": parameter("two", Name="/p")}) == "UPDATE_ROLLBACK_FAILED"
    )
    assert "NoSuchBucket" in stack.reasons()
    stack.cloudformation.continue_update_rollback(StackName="stack", ResourcesToSkip=["Store"])
    assert stack.settled() == "UPDATE_ROLLBACK_COMPLETE"
    assert stack.update({"P": parameter("two", Name="/p")}) == "UPDATE_COMPLETE"


def test_a_protected_stack_can_be_updated_and_not_deleted(stack):
    stack.create(FIRST)
    protect = stack.cloudformation.update_termination_protection
    protect(StackName="stack", EnableTerminationProtection=True)
    assert stack.update(MOVED) == "UPDATE_COMPLETE"
    with pytest.raises(ClientError, match="TerminationProtection is enabled"):
        stack.delete()
    protect(StackName="stack", EnableTerminationProtection=False)
    assert stack.delete() == "DELETE_COMPLETE"


def test_one_of_many_concurrent_stacks_gets_an_export_name(account):
    stacks = [StackDriver(account, f"stack{number}") for number in range(4)]
    outputs = {"O": {"Value": {"Ref": "P"}, "Export": {"Name": "contested"}}}

    def create(stack):
        stack.create({"P": parameter(Name=f"/{stack.name}")}, Outputs=outputs)

    threads = [threading.Thread(target=create, args=(stack,)) for stack in stacks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended = sorted(stack.described()["StackStatus"] for stack in stacks)
    assert ended == ["CREATE_COMPLETE", *["ROLLBACK_COMPLETE"] * 3]


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
