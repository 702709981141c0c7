"""Stack deletion: what is awaited, what is retried, and when it fails."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from tests.operations.strict_aws import client_error
from tritonstack.operations.aws import Clock, Cloud
from tritonstack.operations.buckets import BucketNotEmptyError
from tritonstack.operations.destruction.deletion import PASSING_S, Contents, Retained, delete_stacks, next_try
from tritonstack.operations.stacks import DeletionError, wait_until_settled

ENI = "resource sg-1 has a dependent object (Service: Ec2, Status Code: 400)"
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

    statuses: list[str]
    endings: list[str | None] = field(default_factory=lambda: [None])
    """None: gone. Otherwise why it failed."""
    reason: str = ""
    asked: int = 0
    protected: bool = False


class SimulatedCloudFormation:
    """The part of CloudFormation that a deletion uses."""

    def __init__(self, **stacks: SimulatedStack) -> None:
        self.stacks = stacks

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803
        stack = self.stacks.get(StackName)
        if stack is None:
            raise client_error(
                "DescribeStacks", "ValidationError", f"Stack with id {StackName} does not exist"
            )
        status = stack.statuses.pop(0) if len(stack.statuses) > 1 else stack.statuses[0]
        if status == "GONE":
            del self.stacks[StackName]
            return self.describe_stacks(StackName)
        described = {
            "StackName": StackName,
            "StackStatus": status,
            "EnableTerminationProtection": stack.protected,
        }
        return {"Stacks": [described]}

    def delete_stack(self, StackName: str) -> None:  # noqa: N803
        stack = self.stacks[StackName]
        stack.asked += 1
        ending = stack.endings.pop(0) if len(stack.endings) > 1 else stack.endings[0]
        stack.statuses = [
            "DELETE_IN_PROGRESS",
            "DELETE_IN_PROGRESS",
            "GONE" if ending is None else "DELETE_FAILED",
        ]
        stack.reason = ending or ""

    def describe_stack_events(self, StackName: str) -> dict[str, Any]:  # noqa: N803
        def event(resource: str, status: str, reason: str = "") -> dict[str, str]:
            return {
                "LogicalResourceId": resource,
                "PhysicalResourceId": "the-stack" if resource == StackName else "thing",
                "StackId": "the-stack",
                "ResourceStatus": status,
                "ResourceStatusReason": reason,
            }

        return {
            "StackEvents": [
                event(StackName, "DELETE_FAILED"),
                event("Guard", "DELETE_FAILED", self.stacks[StackName].reason),
                event(StackName, "DELETE_IN_PROGRESS"),
                event("Old", "CREATE_FAILED", "of another time"),
            ]
        }


@pytest.fixture
def lines():
    return []


@pytest.fixture
def clock():
    return FastClock()


def delete(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, lines: list[str], **stacks: SimulatedStack
) -> SimulatedCloudFormation:
    played = SimulatedCloudFormation(**stacks)
    play(monkeypatch, played)
    delete_stacks(Cloud("1", "x", {}), list(stacks), on_update=lines.append, clock=clock)
    return played


def play(
    monkeypatch: pytest.MonkeyPatch,
    played: SimulatedCloudFormation,
    *,
    contents: Callable[[], Contents] = Contents,
    emptied: Callable[[], int] = lambda: 0,
) -> None:
    """Simulate CloudFormation with stacks of `contents`, and S3 that deletes so many objects per call."""
    monkeypatch.setattr(Cloud, "client", lambda *_: played)
    monkeypatch.setattr("tritonstack.operations.destruction.deletion.contents_of", lambda *_: contents())
    monkeypatch.setattr("tritonstack.operations.destruction.deletion.stop_access_log", lambda *_: None)
    monkeypatch.setattr(
        "tritonstack.operations.destruction.deletion.empty_bucket", lambda *_, **__: emptied()
    )


@pytest.mark.parametrize(
    "status",
    ["CREATE_COMPLETE", "ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED", "DELETE_FAILED", "REVIEW_IN_PROGRESS"],
)
def test_idle_stack_is_deleted_immediately(monkeypatch, clock, lines, status):
    stack = SimulatedStack([status])
    assert delete(monkeypatch, clock, lines, one=stack).stacks == {}
    assert stack.asked == 1
    assert lines == [f"one: deleting ({status})", "one: DELETE_IN_PROGRESS", "one: DELETE_COMPLETE"]


def test_running_operations_are_awaited(monkeypatch, clock, lines):
    """Neither an update nor another run's deletion is started again."""
    updating = SimulatedStack(
        ["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_COMPLETE"]
    )
    going = SimulatedStack(["DELETE_IN_PROGRESS", "GONE"])
    delete(monkeypatch, clock, lines, updating=updating, going=going)
    assert (updating.asked, going.asked) == (1, 0)


def test_a_deploy_waits_for_a_concurrent_change(monkeypatch):
    updating = SimulatedStack(
        ["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_COMPLETE"]
    )
    going = SimulatedStack(["DELETE_IN_PROGRESS", "GONE"])
    monkeypatch.setattr(Cloud, "client", lambda *_: SimulatedCloudFormation(one=updating, two=going))
    monkeypatch.setattr("tritonstack.operations.stacks._POLL_S", 0)
    changes: list[tuple[str, str]] = []
    wait_until_settled(
        Cloud("1", "x", {}),
        ["one", "two"],
        on_change=lambda stack: changes.append((stack.name, stack.status)),
    )
    assert changes == [
        ("one", "UPDATE_IN_PROGRESS"),
        ("one", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"),
        ("two", "DELETE_IN_PROGRESS"),
    ]


def test_transient_failures_are_retried_until_they_pass(monkeypatch, clock, lines):
    stack = SimulatedStack(["CREATE_COMPLETE"], endings=[ENI] * 12 + [None])
    began = clock.passed
    delete(monkeypatch, clock, lines, network=stack)
    assert stack.asked == 13
    assert clock.passed - began > 500
    assert f"network: Guard: {ENI}; retrying in 5 s" in lines
    assert f"network: Guard: {ENI}; retrying in 60 s" in lines


def test_permanent_reason_ends_the_wait_with_the_reason(monkeypatch, clock, lines):
    stubborn, other = (
        SimulatedStack(["CREATE_COMPLETE"], endings=[DENIED]),
        SimulatedStack(["CREATE_COMPLETE"]),
    )
    with pytest.raises(DeletionError) as caught:
        delete(monkeypatch, clock, lines, stubborn=stubborn, other=other)
    assert f"DELETE_FAILED: Guard: {DENIED}" in caught.value.message
    assert "of another time" not in caught.value.message
    assert (stubborn.asked, other.asked) == (3, 1)


def test_an_update_that_starts_before_the_deletion_is_awaited(monkeypatch, clock, lines):
    stack = SimulatedStack(["CREATE_COMPLETE"])
    ask = SimulatedCloudFormation.delete_stack

    def busy_at_first(self: SimulatedCloudFormation, StackName: str) -> None:  # noqa: N803
        if not stack.asked:
            stack.asked, stack.statuses = 1, ["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE"]
            raise client_error("DeleteStack", "ValidationError", "Stack is in UPDATE_IN_PROGRESS state")
        ask(self, StackName)

    monkeypatch.setattr(SimulatedCloudFormation, "delete_stack", busy_at_first)
    assert delete(monkeypatch, clock, lines, one=stack).stacks == {}
    assert stack.asked == 2


@pytest.mark.parametrize(
    ("reason", "tries", "failing_s", "pause"),
    [
        (ENI, 1, 0, 5),
        (ENI, 3, 30, 20),
        (ENI, 9, PASSING_S - 1, 60),
        (ENI, 9, PASSING_S, None),
        ("The bucket you tried to delete is not empty", 1, 0, 5),
        ("Cannot delete endpoint while it is Updating", 4, 60, 40),
        ("Rate exceeded", 4, 60, 40),
        (DENIED, 1, 0, 5),
        (DENIED, 2, 10, 10),
        (DENIED, 3, 20, None),
        ("no reason given", 3, 20, None),
    ],
)
def test_wait_time_depends_on_the_reason(reason, tries, failing_s, pause):
    assert next_try(reason, tries=tries, failing_s=failing_s) == pause


def test_buckets_are_emptied_before_each_try(monkeypatch, clock, lines):
    """A late log delivery fills one again."""
    filled: Iterator[int] = iter([3, 1])
    played = SimulatedCloudFormation(
        one=SimulatedStack(["CREATE_COMPLETE"], endings=["The bucket you tried to delete is not empty", None])
    )
    play(monkeypatch, played, contents=lambda: Contents(("logs",)), emptied=lambda: next(filled))
    delete_stacks(Cloud("1", "x", {}), ["one"], on_update=lines.append, clock=clock)
    assert [line for line in lines if line.startswith("logs")] == [
        "logs: 3 objects deleted",
        "logs: 1 objects deleted",
    ]


PASSING, DENIED_OBJECT = (
    BucketNotEmptyError("logs", [{"Key": key, "Code": code, "Message": "As said"}], remedy="")
    for key, code in (("a", "SlowDown"), ("retry/internal", "AccessDenied"))
)
LATE = ReadTimeoutError(endpoint_url="https://logs.s3.amazonaws.com/?versions")
CLASH = client_error(
    "PutBucketLogging", "OperationAborted", "A conflicting conditional operation is in progress"
)


@pytest.mark.parametrize("failure", [PASSING, LATE, CLASH])
def test_bucket_that_cannot_be_emptied_does_not_block_other_stacks(monkeypatch, clock, lines, failure):
    first, other = SimulatedStack(["CREATE_COMPLETE"]), SimulatedStack(["CREATE_COMPLETE"])
    answers: Iterator[Exception | int] = iter([*[failure] * 5, 2])

    def emptied() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    played = SimulatedCloudFormation(one=first, other=other)
    play(monkeypatch, played, emptied=emptied)
    contents = {"one": Contents(("logs",)), "other": Contents()}
    monkeypatch.setattr(
        "tritonstack.operations.destruction.deletion.contents_of", lambda _, name: contents[name]
    )
    delete_stacks(Cloud("1", "x", {}), ["one", "other"], on_update=lines.append, clock=clock)
    assert (played.stacks, first.asked, other.asked) == ({}, 1, 1)
    assert "logs: 2 objects deleted" in lines
    assert sum("retrying" in line for line in lines) == 5


def test_an_undeletable_bucket_is_reported_after_the_others_are_deleted(monkeypatch, clock, lines):
    """S3's error counts, not the names of the objects."""
    first, other = (
        SimulatedStack(["CREATE_COMPLETE"]),
        SimulatedStack(["CREATE_COMPLETE"], endings=[ENI, ENI, None]),
    )

    def emptied() -> int:
        raise DENIED_OBJECT

    play(monkeypatch, SimulatedCloudFormation(one=first, other=other), emptied=emptied)
    contents = {"one": Contents(("logs",)), "other": Contents()}
    monkeypatch.setattr(
        "tritonstack.operations.destruction.deletion.contents_of", lambda _, name: contents[name]
    )
    with pytest.raises(DeletionError, match="cannot delete 1 objects"):
        delete_stacks(Cloud("1", "x", {}), ["one", "other"], on_update=lines.append, clock=clock)
    assert (first.asked, other.asked) == (0, 3)
    assert sum(line.startswith("one: cannot delete 1") for line in lines) == 2


def test_resources_newly_retained_by_an_update_are_not_emptied(monkeypatch, clock, lines):
    """`removal: retain` came with the update that the deletion had to await."""
    played = SimulatedCloudFormation(one=SimulatedStack(["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE"]))
    kept = Retained("AWS::S3::Bucket", "logs")
    before_and_after = iter([Contents(("logs",)), Contents((), (kept,))])
    play(monkeypatch, played, contents=lambda: next(before_and_after), emptied=lambda: 3)
    (deleted,) = delete_stacks(Cloud("1", "x", {}), ["one"], on_update=lines.append, clock=clock)
    assert deleted.retained == (kept,)
    assert "logs: 3 objects deleted" not in lines


def test_newly_protected_stacks_are_neither_emptied_nor_deleted(monkeypatch, clock, lines):
    stack = SimulatedStack(["UPDATE_COMPLETE"], protected=True)
    played = SimulatedCloudFormation(one=stack)
    play(monkeypatch, played, contents=lambda: Contents(("logs",)), emptied=lambda: 3)
    with pytest.raises(DeletionError, match="is now protected"):
        delete_stacks(Cloud("1", "x", {}), ["one"], on_update=lines.append, clock=clock)
    assert stack.asked == 0
    assert "logs: 3 objects deleted" not in lines
