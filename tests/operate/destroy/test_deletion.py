"""Stack deletion: what is awaited, what is retried, and when it fails."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from tests.operate.strict_aws import client_error
from tritonstack.operate.destroy.deletion import (
    PASSING_S,
    BucketNotEmptyError,
    Contents,
    Retained,
    delete_stacks,
    next_try,
)
from tritonstack.operate.shared.aws import Clock, Cloud
from tritonstack.operate.shared.stacks import DeletionError, wait_until_settled

ENI = "resource sg-1 has a dependent object (Service: Ec2, Status Code: 400)"
CLOUD = Cloud("1", "x", {})
DENIED = "not authorized to perform: sagemaker:DeleteModel"


class FastClock(Clock):
    """Time that advances only during sleeps."""

    def __init__(self) -> None:
        self.passed = 1000.0
        super().__init__(now=lambda: self.passed, sleep=self._pass)

    def _pass(self, seconds: float) -> None:
        object.__setattr__(self, "passed", self.passed + seconds)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


@dataclass
class SimulatedStack:
    """A stack that shows these statuses in turn, and whose deletions end with these results in turn."""

    statuses: list[str] = field(default_factory=lambda: ["CREATE_COMPLETE"])
    endings: list[str | None] = field(default_factory=lambda: [None])
    """None: gone. Otherwise why it failed."""
    protected: bool = False
    reason: str = ""
    asked: int = 0


def following(items: list[Any]) -> Any:
    """Return the next item; the last one stays."""
    return items.pop(0) if len(items) > 1 else items[0]


class SimulatedCloudFormation:
    """The part of CloudFormation that a deletion uses, and what it empties."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stacks: dict[str, SimulatedStack] = {}
        self.contents: dict[str, list[Contents]] = {}
        """What stacks contain at each look; nothing by default."""
        self.emptied: Iterator[Exception | int] = iter(())
        """What emptying a bucket gives each time."""
        self.lines: list[str] = []
        self.clock = FastClock()
        for name, stand_in in (
            ("contents_of", lambda _, name: following(self.contents.get(name, [Contents()]))),
            ("stop_access_log", lambda *_: None),
            ("empty_bucket", self._empty),
        ):
            monkeypatch.setattr(f"tritonstack.operate.destroy.deletion.{name}", stand_in)
        monkeypatch.setattr(Cloud, "client", lambda *_: self)

    def delete(self, **stacks: SimulatedStack) -> list[Contents]:
        self.stacks = stacks
        return delete_stacks(CLOUD, list(stacks), on_update=self.lines.append, clock=self.clock)

    def _empty(self, *_: object, **__: object) -> int:
        answer = next(self.emptied)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803
        stack = self.stacks.get(StackName)
        status = following(stack.statuses) if stack else "GONE"
        if stack is None or status == "GONE":
            self.stacks.pop(StackName, None)
            message = f"Stack with id {StackName} does not exist"
            raise client_error("DescribeStacks", "ValidationError", message)
        protected = stack.protected
        described = {"StackName": StackName, "StackStatus": status, "EnableTerminationProtection": protected}
        return {"Stacks": [described]}

    def delete_stack(self, StackName: str) -> None:  # noqa: N803
        stack = self.stacks[StackName]
        stack.asked += 1
        stack.reason = following(stack.endings) or ""
        ending = "DELETE_FAILED" if stack.reason else "GONE"
        stack.statuses = ["DELETE_IN_PROGRESS", "DELETE_IN_PROGRESS", ending]

    def describe_stack_events(self, StackName: str) -> dict[str, Any]:  # noqa: N803
        rows = (
            (StackName, "DELETE_FAILED", ""),
            ("Guard", "DELETE_FAILED", self.stacks[StackName].reason),
            (StackName, "DELETE_IN_PROGRESS", ""),
            ("Old", "CREATE_FAILED", "of another time"),
        )
        return {
            "StackEvents": [
                {
                    "LogicalResourceId": resource,
                    "PhysicalResourceId": "the-stack" if resource == StackName else "thing",
                    "StackId": "the-stack",
                    "ResourceStatus": status,
                    "ResourceStatusReason": reason,
                }
                for resource, status, reason in rows
            ]
        }


@pytest.fixture
def played(monkeypatch):
    return SimulatedCloudFormation(monkeypatch)


@pytest.mark.parametrize(
    "status",
    ["CREATE_COMPLETE", "ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED", "DELETE_FAILED", "REVIEW_IN_PROGRESS"],
)
def test_idle_stack_is_deleted_immediately(played, status):
    stack = SimulatedStack([status])
    played.delete(one=stack)
    assert (played.stacks, stack.asked) == ({}, 1)
    assert played.lines == [f"one: deleting ({status})", "one: DELETE_IN_PROGRESS", "one: DELETE_COMPLETE"]


UPDATING = ["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_COMPLETE"]


def test_running_operations_are_awaited(played):
    """Neither an update nor another run's deletion is started again."""
    updating, going = SimulatedStack([*UPDATING]), SimulatedStack(["DELETE_IN_PROGRESS", "GONE"])
    played.delete(updating=updating, going=going)
    assert (updating.asked, going.asked) == (1, 0)


def test_a_deploy_waits_for_a_concurrent_change(played, monkeypatch):
    going = SimulatedStack(["DELETE_IN_PROGRESS", "GONE"])
    played.stacks = {"one": SimulatedStack([*UPDATING]), "two": going}
    monkeypatch.setattr("tritonstack.operate.shared.stacks._POLL_S", 0)
    changes: list[tuple[str, str]] = []
    wait_until_settled(
        CLOUD, ["one", "two"], on_change=lambda stack: changes.append((stack.name, stack.status))
    )
    assert changes == [("one", UPDATING[0]), ("one", UPDATING[1]), ("two", "DELETE_IN_PROGRESS")]


def test_transient_failures_are_retried_until_they_pass(played):
    stack, began = SimulatedStack(endings=[ENI] * 12 + [None]), played.clock.passed
    played.delete(network=stack)
    assert stack.asked == 13
    assert played.clock.passed - began > 500
    for pause in (5, 60):
        assert f"network: Guard: {ENI}; retrying in {pause} s" in played.lines


def test_permanent_reason_ends_the_wait_with_the_reason(played):
    stubborn, other = SimulatedStack(endings=[DENIED]), SimulatedStack()
    with pytest.raises(DeletionError) as caught:
        played.delete(stubborn=stubborn, other=other)
    assert f"DELETE_FAILED: Guard: {DENIED}" in caught.value.message
    assert "of another time" not in caught.value.message
    assert (stubborn.asked, other.asked) == (3, 1)


def test_an_update_that_starts_before_the_deletion_is_awaited(played, monkeypatch):
    stack, ask = SimulatedStack(), played.delete_stack

    def busy_at_first(StackName: str) -> None:  # noqa: N803
        if not stack.asked:
            stack.asked, stack.statuses = 1, ["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE"]
            raise client_error("DeleteStack", "ValidationError", "Stack is in UPDATE_IN_PROGRESS state")
        ask(StackName)

    monkeypatch.setattr(played, "delete_stack", busy_at_first)
    played.delete(one=stack)
    assert (played.stacks, stack.asked) == ({}, 2)


@pytest.mark.parametrize(
    ("reason", "tries", "failing_s", "pause"),
    [
        (ENI, 1, 0, 5),
        (ENI, 3, 30, 20),
        (ENI, 9, PASSING_S - 1, 60),
        (ENI, 9, PASSING_S, None),
        ("The bucket you tried to delete is not empty", 4, 60, 40),
        ("Cannot delete endpoint while it is Updating", 4, 60, 40),
        ("Rate exceeded", 4, 60, 40),
        (DENIED, 2, 10, 10),
        (DENIED, 3, 20, None),
        ("no reason given", 3, 20, None),
    ],
)
def test_wait_time_depends_on_the_reason(reason, tries, failing_s, pause):
    assert next_try(reason, tries=tries, failing_s=failing_s) == pause


LOGS = Contents(("logs",))
PASSING, DENIED_OBJECT = (
    BucketNotEmptyError("logs", [{"Key": key, "Code": code, "Message": "As said"}], remedy="")
    for key, code in (("a", "SlowDown"), ("retry/internal", "AccessDenied"))
)
LATE = ReadTimeoutError(endpoint_url="https://logs.s3.amazonaws.com/?versions")
CLASH = client_error("PutBucketLogging", "OperationAborted", "A conflicting operation is in progress")


def test_buckets_are_emptied_before_each_try(played):
    """A late log delivery fills one again."""
    played.contents, played.emptied = {"one": [LOGS]}, iter([3, 1])
    played.delete(one=SimulatedStack(endings=["The bucket you tried to delete is not empty", None]))
    emptied = [line for line in played.lines if line.startswith("logs")]
    assert emptied == ["logs: 3 objects deleted", "logs: 1 objects deleted"]


@pytest.mark.parametrize("failure", [PASSING, LATE, CLASH])
def test_bucket_that_cannot_be_emptied_does_not_block_other_stacks(played, failure):
    first, other = SimulatedStack(), SimulatedStack()
    played.contents, played.emptied = {"one": [LOGS]}, iter([*[failure] * 5, 2])
    played.delete(one=first, other=other)
    assert (played.stacks, first.asked, other.asked) == ({}, 1, 1)
    assert "logs: 2 objects deleted" in played.lines
    assert sum("retrying" in line for line in played.lines) == 5


def test_an_undeletable_bucket_is_reported_after_the_others_are_deleted(played):
    """S3's error counts, not the names of the objects."""
    first, other = SimulatedStack(), SimulatedStack(endings=[ENI, ENI, None])
    played.contents, played.emptied = {"one": [LOGS]}, itertools.repeat(DENIED_OBJECT)
    with pytest.raises(DeletionError, match="cannot delete 1 objects"):
        played.delete(one=first, other=other)
    assert (first.asked, other.asked) == (0, 3)


def test_resources_newly_retained_by_an_update_are_not_emptied(played):
    """`removal: retain` came with the update that the deletion had to await."""
    retained = Contents((), (Retained("AWS::S3::Bucket", "logs"),))
    played.contents = {"one": [LOGS, retained]}
    assert played.delete(one=SimulatedStack(["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE"])) == [retained]


def test_newly_protected_stacks_are_neither_emptied_nor_deleted(played):
    stack = SimulatedStack(["UPDATE_COMPLETE"], protected=True)
    played.contents = {"one": [LOGS]}
    with pytest.raises(DeletionError, match="is now protected"):
        played.delete(one=stack)
    assert stack.asked == 0
