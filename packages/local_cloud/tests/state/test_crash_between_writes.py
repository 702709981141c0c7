"""A kill between any two writes leads to a stable stack without leaks."""

from __future__ import annotations

import shutil

import pytest

from packages.local_cloud.tests.cloudformation.stacks import StackDriver, broken, parameter, resource
from packages.local_cloud.tests.state.restartable_cloud import RestartableCloud
from tritonstack_local.state.database import Database

pytestmark = pytest.mark.soak

TRIED = 10
BEFORE = {
    "Vpc": resource("AWS::EC2::VPC", CidrBlock="10.0.0.0/16"),
    "Subnet": resource("AWS::EC2::Subnet", VpcId={"Ref": "Vpc"}, CidrBlock="10.0.0.0/24"),
    "Topic": resource("AWS::SNS::Topic"),
    "Named": parameter({"Ref": "Subnet"}, Name="/named"),
    "Old": resource("AWS::S3::Bucket"),
}
AFTER = {
    "Vpc": resource("AWS::EC2::VPC", CidrBlock="10.1.0.0/16"),
    "Subnet": resource("AWS::EC2::Subnet", VpcId={"Ref": "Vpc"}, CidrBlock="10.1.0.0/24"),
    "Topic": resource("AWS::SNS::Topic", DisplayName="changed"),
    "Named": parameter({"Ref": "Subnet"}, Name="/named"),
    "New": resource("AWS::KMS::Alias", AliasName="alias/new", TargetKeyId={"Ref": "Key"}),
    "Key": resource("AWS::KMS::Key"),
}
FAILING = {**AFTER, "Bad": broken("Named")}


@pytest.fixture
def states(tmp_path, monkeypatch):
    """Return copies of the cloud's folder after each write of an operation."""
    write, taken = Database.write, []

    def copying_write(database, rows):
        write(database, rows)
        folder = tmp_path / f"after-{len(taken)}"
        shutil.copytree(tmp_path / "cloud" / "state", folder / "state")
        taken.append(folder)

    def during(operate, *, on):
        with monkeypatch.context() as patch:
            patch.setattr(Database, "write", copying_write)
            operate()
            on.end()
        return taken

    return during


@pytest.mark.parametrize(
    ("prepare", "operate"),
    [
        (lambda _: None, lambda stack: stack.create(BEFORE)),
        (lambda _: None, lambda stack: stack.create({**BEFORE, "Bad": broken("Named")})),
        (lambda stack: stack.create(BEFORE), lambda stack: stack.update(AFTER)),
        (lambda stack: stack.create(BEFORE), lambda stack: stack.update(FAILING)),
        (lambda stack: stack.create(AFTER), lambda stack: stack.delete()),
    ],
    ids=["create", "create that fails", "update", "update that fails", "delete"],
)
def test_every_intermediate_state_recovers(tmp_path, states, prepare, operate):
    cloud = RestartableCloud(tmp_path / "cloud")
    stack = StackDriver(cloud.account)
    prepare(stack)
    taken = states(lambda: operate(stack), on=cloud)
    assert len(taken) > 5
    for folder in spread(taken):
        again = RestartableCloud(folder, account_id=cloud.account_id)
        try:
            bring_to_nothing(StackDriver(again.account))
            left = [item for item in again.account.inventory() if not item.get("pending_deletion")]
            assert left == [], folder.name
        finally:
            again.end()


def spread(taken):
    """Return an evenly spaced sample: each one costs a start."""
    return taken[:: len(taken) // TRIED + 1]


def bring_to_nothing(stack):
    stacks = stack.cloudformation.describe_stacks()["Stacks"]
    if stacks:
        at_rest = stack.settled(stacks[0]["StackId"])
        if at_rest == "DELETE_COMPLETE":
            return
        assert "FAILED" not in at_rest, stack.reasons()
        if at_rest.startswith("UPDATE"):
            assert stack.update({**BEFORE, "More": parameter()}) == "UPDATE_COMPLETE", stack.reasons()
        assert stack.delete() == "DELETE_COMPLETE", stack.reasons()
