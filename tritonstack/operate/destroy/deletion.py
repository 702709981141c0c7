"""Delete stacks completely: wait for operations in progress, and retry transient failures.

No state is kept between runs: each starts from CloudFormation's state, so it can be interrupted or run
concurrently.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError, HTTPClientError

from tritonstack.base.errors import TritonstackError
from tritonstack.operate.shared.aws import Clock, Cloud, if_present, is_absent
from tritonstack.operate.shared.stacks import (
    DeletionError,
    StackState,
    describe_stack,
    failures,
    poll_pauses,
    stack_resources,
    stored_template,
)

# Empty buckets, because S3 and CloudFormation delete only empty ones.


_PASSING_CODES = frozenset(
    {"InternalError", "OperationAborted", "RequestTimeout", "ServiceUnavailable", "SlowDown"}
)
"""Error codes of single objects in a deletion that can be retried."""
_PAUSES_S = (1.0, 2.0, 4.0, 8.0)


class BucketNotEmptyError(TritonstackError):
    """Objects of a bucket could not be deleted."""

    code = DeletionError.code

    def __init__(self, bucket: str, rejected: Sequence[Mapping[str, Any]], *, remedy: str) -> None:
        first = rejected[0]
        self.reason = f"{first['Code']}: {first.get('Message', 'no reason given')}"
        """Return S3's error message without object names."""
        super().__init__(
            (
                f"cannot delete {len(rejected)} objects of bucket {bucket}, for example {first.get('Key')}: "
                f"{self.reason}"
            ),
            remedy=remedy,
        )


def stop_access_log(cloud: Cloud, bucket: str) -> None:
    """Disable access logging: deleting objects would write new log objects."""
    if_present(cloud.client("s3").put_bucket_logging, Bucket=bucket, BucketLoggingStatus={})


def empty_bucket(cloud: Cloud, bucket: str, *, sleep: Callable[[float], None] = time.sleep) -> int:
    """Delete all versions of all objects of a bucket; return their number."""
    s3, deleted = cloud.client("s3"), 0
    try:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            entries = page.get("Versions", []) + page.get("DeleteMarkers", [])
            objects = [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in entries]
            if objects:
                _delete(s3, bucket, objects, sleep)
                deleted += len(objects)
    except ClientError as error:
        if not is_absent(error):
            raise
    return deleted


def _delete(s3: Any, bucket: str, objects: list[dict[str, str]], sleep: Callable[[float], None]) -> None:
    """Delete objects, with retries.

    S3 returns 200 even if it rejected some objects, so AWS clients do not retry those.
    """
    remaining = objects
    for pause in (*_PAUSES_S, None):
        answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": remaining, "Quiet": True})
        errors: list[Mapping[str, Any]] = answer.get("Errors", [])
        if not errors:
            return
        if lasting := [error for error in errors if error["Code"] not in _PASSING_CODES]:
            remedy = "check the bucket's policy and your permissions, then rerun"
            raise BucketNotEmptyError(bucket, lasting, remedy=remedy)
        if pause is None:
            remedy = "S3 failed after several retries; rerun later"
            raise BucketNotEmptyError(bucket, errors, remedy=remedy)
        sleep(pause)
        rejected = {error["Key"] for error in errors}
        remaining = [item for item in remaining if item["Key"] in rejected]


PASSING_S = 45 * 60.0
"""SageMaker and VPC endpoints release network interfaces up to half an hour after their deletion."""
_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 60.0
_OTHER_TRIES = 3
_DELETED_AFTERWARDS = frozenset({"AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Model"})
"""What stacks retain for endpoints that may still serve it; `destroy` deletes it once none does."""
_BUCKET, _REPOSITORY, _KEY = "AWS::S3::Bucket", "AWS::ECR::Repository", "AWS::KMS::Key"
_PASSING = re.compile(
    "|".join(
        (
            "depend",  # has dependencies, DependencyViolation, has a dependent object
            "network interface",
            "in use",
            "not empty",
            "in progress",
            "currently being",
            "being (?:created|updated|deleted)",
            "Updating|Creating|SystemUpdating",
            "throttl",
            "rate exceeded",
            "RequestLimitExceeded",
            "SlowDown",
            "try again|retry",
            "timed out|timeout",
            "Conflict|OperationAborted",
            "internal|ServiceUnavailable|temporarily",
        )
    ),
    re.IGNORECASE,
)

_NOT_NOW = re.compile(r"_IN_PROGRESS\b")
"""CloudFormation's answers while another operation on the stack is starting."""


@dataclass(frozen=True)
class Retained:
    """A resource that the stack's template retains."""

    type: str
    id: str


@dataclass(frozen=True)
class Contents:
    """The contents of a stack that matter for its deletion."""

    buckets: tuple[str, ...] = ()
    """Buckets that are deleted with it and must be empty."""
    retained: tuple[Retained, ...] = ()
    repositories: tuple[str, ...] = ()
    """Repositories that are deleted with it, images included."""
    keys: tuple[str, ...] = ()
    """Keys that are scheduled for deletion; KMS waits some days."""
    serving: tuple[Retained, ...] = ()
    """What an endpoint may still serve: no data, and deleted after the stacks."""


def contents_of(cloud: Cloud, stack: str) -> Contents:
    """Read a stack's contents from its own template."""
    template = stored_template(cloud, stack, stage="Processed")
    if template is None:
        return Contents()
    declared: Mapping[str, Mapping[str, str]] = template.get("Resources", {})
    retained: list[Retained] = []
    serving: list[Retained] = []
    deleted: dict[str, list[str]] = {kind: [] for kind in (_BUCKET, _REPOSITORY, _KEY)}
    for resource in if_present(lambda: list(stack_resources(cloud, stack))) or ():
        physical = resource.get("PhysicalResourceId")
        if not physical or resource["ResourceStatus"] == "DELETE_COMPLETE":
            continue
        if resource["ResourceType"] in _DELETED_AFTERWARDS:
            serving.append(Retained(resource["ResourceType"], physical))
            continue
        policy = declared.get(resource["LogicalResourceId"], {}).get("DeletionPolicy", "Delete")
        if policy != "Delete":
            retained.append(Retained(resource["ResourceType"], physical))
        elif resource["ResourceType"] in deleted:
            deleted[resource["ResourceType"]].append(physical)
    return Contents(
        buckets=tuple(sorted(deleted[_BUCKET])),
        retained=tuple(sorted(retained, key=lambda item: (item.type, item.id))),
        repositories=tuple(sorted(deleted[_REPOSITORY])),
        keys=tuple(sorted(deleted[_KEY])),
        serving=tuple(serving),
    )


def next_try(reason: str, *, tries: int, failing_s: float) -> float | None:
    """Return the pause before the next attempt; None to give up.

    `tries` is the number of failures in this run, `failing_s` the time since the first.
    """
    passing = _PASSING.search(reason) is not None
    if failing_s >= PASSING_S or (not passing and tries >= _OTHER_TRIES):
        return None
    return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** (tries - 1))


@dataclass
class _Deletion:
    cloud: Cloud
    name: str
    clock: Clock
    on_update: Callable[[str], None]
    contents: Contents
    """The state at the last action."""
    done: bool = False
    failure: str = ""
    """Why the deletion was not retried."""
    _seen: str = ""
    _asked: bool = False
    _tries: int = 0
    _failing_since: float = 0.0
    _not_before: float = 0.0

    def poll(self) -> None:
        """Poll the stack and take the next step."""
        state = describe_stack(self.cloud, self.name)
        if state is None:
            self.on_update(f"{self.name}: DELETE_COMPLETE")
            self.done = True
            return
        # A stack that was complete before the first request has no progress to report.
        if state.status != self._seen and (self._asked or state.in_progress):
            self._seen = state.status
            self.on_update(f"{self.name}: {state.status}")
        if state.in_progress:
            return
        if state.protected:
            self.failure = f"stack {self.name} is now protected; nothing was deleted"
            self.done = True
        elif self._is_time(state):
            self.on_update(f"{self.name}: deleting ({state.status})")
            self._ask(state)

    def _is_time(self, state: StackState) -> bool:
        """Return whether to try now; decide about new failures."""
        if self._not_before:
            return self.clock.now() >= self._not_before
        if not self._asked:
            return True
        reason = failures(self.cloud, self.name) if state.status == "DELETE_FAILED" else state.reason
        self._failed(state, reason)
        return False

    def _failed(self, state: StackState, message: str, *, reason: str | None = None) -> None:
        """Schedule the next attempt, or give up.

        `reason` is text without resource names, which decides whether a failure is transient.
        """
        now = self.clock.now()
        self._tries += 1
        self._failing_since = self._failing_since or now
        pause = next_try(reason or message, tries=self._tries, failing_s=now - self._failing_since)
        if pause is None:
            self.failure = f"stack {self.name} is {state.status}: {message}"
            self.done = True
            return
        self._not_before = now + pause
        self.on_update(f"{self.name}: {message}; retrying in {pause:.0f} s")

    def _ask(self, state: StackState) -> None:
        """Start the deletion; empty buckets that have been refilled.

        Retained resources are read now, because an update may have changed them.
        """
        self.contents = contents_of(self.cloud, self.name)
        self._seen, self._not_before = "", 0.0
        try:
            self._empty()
        except BucketNotEmptyError as error:
            self._failed(state, error.message, reason=error.reason)
            return
        except (ClientError, HTTPClientError) as error:
            self._failed(state, f"cannot empty its buckets: {error}")
            return
        try:
            self.cloud.client("cloudformation").delete_stack(StackName=self.name)
            self._asked = True
        except ClientError as error:
            # Another command may have started an update meanwhile.
            if not _NOT_NOW.search(str(error)):
                raise

    def _empty(self) -> None:
        for bucket in self.contents.buckets:
            stop_access_log(self.cloud, bucket)
        for bucket in self.contents.buckets:
            if emptied := empty_bucket(self.cloud, bucket, sleep=self.clock.sleep):
                self.on_update(f"{bucket}: {emptied} objects deleted")


def delete_stacks(
    cloud: Cloud, names: Iterable[str], *, on_update: Callable[[str], None], clock: Clock | None = None
) -> list[Contents]:
    """Empty and delete stacks in parallel, wait for all, and return what they contained."""
    clock = clock or Clock()
    deletions = [_Deletion(cloud, name, clock, on_update, contents_of(cloud, name)) for name in names]
    for pause in poll_pauses():
        for deletion in deletions:
            if not deletion.done:
                deletion.poll()
        if all(deletion.done for deletion in deletions):
            break
        clock.sleep(pause)
    if reasons := [deletion.failure for deletion in deletions if deletion.failure]:
        remedy = "remove the cause and rerun the command; it resumes here"
        raise DeletionError("; ".join(reasons), remedy=remedy)
    return [deletion.contents for deletion in deletions]
