"""Claims of lock entries, with S3's conditional writes under several writers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.operations.strict_aws import client_error
from tritonstack.operations.aws import Cloud
from tritonstack.operations.promotion.claims import Claim, PromotionTakenError, claim
from tritonstack.records.events import Event, TouchedArtifact

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
KEY = "promotions/minilm/cpu/first.json"

Meanwhile = Callable[[], object]


def promotion(by: str, digest: str = "a", *, minutes_ago: float = 0) -> Event:
    return Event(
        kind="promoted",
        environment="prod",
        at=(NOW - timedelta(minutes=minutes_ago)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        by=by,
        artifacts=(TouchedArtifact(model="minilm", target="cpu", digest=digest * 64),),
        note="from dev",
    )


ANN, BOB = promotion("ann"), promotion("bob", "b")
GIVEN_UP = promotion("bob", "b", minutes_ago=11)


class Bucket:
    """A moto bucket; `answers` replaces S3's answers to the next claims."""

    def __init__(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cloud, self.s3 = cloud, cloud.client("s3")
        self.s3.create_bucket(Bucket="prod")
        self.answers: list[tuple[str, Meanwhile]] = []
        self.conditions: list[str] = []
        self.slept: list[float] = []
        self.write = self.s3.put_object
        monkeypatch.setattr(self.s3, "put_object", self._put)

    def claim(self, event: Event) -> Claim:
        return claim(self.cloud, "prod", event, history=(), now=NOW, sleep=self.slept.append)

    def hold(self, event: Event) -> None:
        self.write(Bucket="prod", Key=KEY, Body=event.to_json().encode())

    def release(self) -> None:
        self.s3.delete_object(Bucket="prod", Key=KEY)

    @property
    def holder(self) -> Event:
        found = self.s3.get_object(Bucket="prod", Key=KEY)
        return Event.model_validate_json(found["Body"].read())

    def _put(self, **parameters: Any) -> None:
        self.conditions.append(next(name for name in ("IfMatch", "IfNoneMatch") if name in parameters))
        if self.answers:
            code, meanwhile = self.answers.pop(0)
            meanwhile()
            raise client_error("PutObject", code, "as S3 has it")
        self.write(**parameters)


@pytest.fixture
def bucket(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    return Bucket(cloud, monkeypatch)


def nothing() -> None:
    """Return no competing claim."""


def test_a_conflict_is_not_a_rejection(bucket: Bucket) -> None:
    """S3 may reject both of two simultaneous writes, and then no object exists."""
    bucket.answers = [("ConditionalRequestConflict", nothing)] * 2
    assert bucket.claim(ANN) == Claim(ANN, claimed=True)
    assert bucket.holder == ANN
    assert len(bucket.slept) == 2


def test_another_writer_wins_the_conflict(bucket: Bucket) -> None:
    bucket.answers = [("ConditionalRequestConflict", lambda: bucket.hold(BOB))]
    with pytest.raises(PromotionTakenError, match="bob is promoting bbb"):
        bucket.claim(ANN)
    assert bucket.holder == BOB


def test_a_claim_of_the_same_promotion_is_taken_over(bucket: Bucket) -> None:
    same = promotion("bob")
    bucket.answers = [("PreconditionFailed", lambda: bucket.hold(same))]
    assert bucket.claim(ANN) == Claim(same, claimed=False)
    assert bucket.slept == []


def test_a_claim_deleted_before_it_is_read(bucket: Bucket) -> None:
    bucket.answers = [("PreconditionFailed", nothing)]
    assert bucket.claim(ANN) == Claim(ANN, claimed=True)


@pytest.mark.parametrize("code", ["NoSuchKey", "ConditionalRequestConflict", "PreconditionFailed"])
def test_an_abandoned_claim_deleted_before_its_replacement(bucket: Bucket, code: str) -> None:
    bucket.hold(GIVEN_UP)
    bucket.answers = [("PreconditionFailed", nothing), (code, bucket.release)]
    assert bucket.claim(ANN) == Claim(ANN, claimed=True)
    assert bucket.conditions == ["IfNoneMatch", "IfMatch", "IfNoneMatch"]


def test_an_abandoned_claim_taken_by_another_promotion_first(bucket: Bucket) -> None:
    """The new claimant is named, not the previous one."""
    bucket.hold(GIVEN_UP)
    carl = promotion("carl", "c")
    bucket.answers = [("PreconditionFailed", nothing), ("PreconditionFailed", lambda: bucket.hold(carl))]
    with pytest.raises(PromotionTakenError, match="carl is promoting ccc"):
        bucket.claim(ANN)
    assert bucket.holder == carl


def test_a_claim_follows_the_latest_change(bucket: Bucket) -> None:
    """A later promotion of the same entry does not meet the claim of an earlier one."""
    history = [promotion("ann", "a", minutes_ago=9), promotion("bob", "b", minutes_ago=6)]
    for last in (1, 2):
        carl = promotion("carl", "cd"[last - 1])
        done = claim(bucket.cloud, "prod", carl, history=history[:last], now=NOW)
        assert done == Claim(carl, claimed=True)
    assert bucket.s3.list_objects_v2(Bucket="prod")["KeyCount"] == 2


def test_claim_that_never_succeeds_is_reported(bucket: Bucket) -> None:
    bucket.answers = [("ConditionalRequestConflict", nothing)] * 100
    with pytest.raises(PromotionTakenError, match="others keep writing it") as caught:
        bucket.claim(ANN)
    assert "rerun the command" in str(caught.value.remedy)
