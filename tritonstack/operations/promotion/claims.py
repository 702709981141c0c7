"""Who may put what into an environment's lock, where several promote at once, from wherever they do.

Before a lock changes, the promotion is written into the environment's bucket on condition that nobody has
written another for the same place since the last change there. S3 lets exactly one of them through. Who comes
second finds the first one's promotion: is it of the same artifact, it becomes theirs, with its author and its
time, so that two checkouts write the same lock and the same event; is it of another one, theirs ends.

A claim that led to no event was left by a promotion that was killed. Its own next run takes it up again;
after a while it no longer stands in anybody's way.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import TritonstackError
from tritonstack.base.naming import PROMOTIONS
from tritonstack.operations.aws import Cloud, error_code
from tritonstack.records.events import Event, EventKind
from tritonstack.reference.conditional_writes import AGAIN_CODES, HELD_CODES

_BETWEEN_CLAIM_AND_EVENT = timedelta(minutes=10)
"""Nothing but a small file is written between the two."""
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
"""One a write: S3 does not say which of two at once is first, but has both write again."""
CHANGES: tuple[EventKind, ...] = ("built", "promoted", "rolled-back")
"""What changes a lock."""

Place = tuple[str, str]
"""A model and a target, or a folder of containers/ and a kind of machine."""


class PromotionTakenError(TritonstackError):
    """Somebody else promotes into the same place."""


@dataclass(frozen=True)
class Claim:
    """A promotion that may go into the lock."""

    event: Event
    won: bool
    """False if it is somebody else's, or one that was killed and is taken up again."""


@dataclass(frozen=True)
class _Held:
    """A claim in the bucket, and what S3 tells it from those before and after it by."""

    event: Event
    etag: str


def claim(
    cloud: Cloud,
    bucket: str,
    event: Event,
    *,
    history: Sequence[Event],
    now: datetime,
    sleep: Callable[[float], None] = time.sleep,
) -> Claim:
    """Claim the place that an event is about.

    `history` are the environment's events of CHANGES, the earliest first.
    """
    latest = latest_change(history, event)
    if latest and latest.kind == "promoted" and _is_same(latest, event) and latest.note == event.note:
        return Claim(latest, won=False)
    s3 = cloud.client("s3")
    key = f"{PROMOTIONS}{_name(event)}/{_after(latest)}.json"
    given_up: _Held | None = None
    for pause in _PAUSES_S:
        answer = _put(s3, bucket, key, event, replacing=given_up)
        if answer is None:
            return Claim(event, won=True)
        held = _held(s3, bucket, key) if answer in HELD_CODES else None
        if held is None:
            sleep(pause)
        elif _is_same(held.event, event):
            return Claim(held.event, won=False)
        else:
            _require_given_up(held.event, event, now)
        given_up = held
    raise PromotionTakenError(
        f"s3://{bucket}/{key} cannot be claimed: others keep writing it; this promotion has changed nothing",
        remedy="wait for them, and run the same command again",
    )


def latest_change(history: Sequence[Event], event: Event) -> Event | None:
    """The last event that put something into the same place."""
    place = place_of(event)
    return next((past for past in reversed(history) if past.kind in CHANGES and place in _places(past)), None)


def place_of(event: Event) -> Place:
    """The one place that a promotion's event is about."""
    (place,) = _places(event)
    return place


def digest_of(event: Event, place: Place) -> str:
    """What an event says lies in a place."""
    return _places(event)[place]


def _held(s3: Any, bucket: str, key: str) -> _Held | None:
    """Who has claimed a place; None if that has been deleted since."""
    try:
        found = s3.get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error_code(error) == "NoSuchKey":
            return None
        raise
    return _Held(Event.model_validate_json(found["Body"].read()), found["ETag"])


def _require_given_up(first: Event, event: Event, now: datetime) -> None:
    """Refuse to push another promotion aside that may be under way."""
    if now - datetime.fromisoformat(first.at) > _BETWEEN_CLAIM_AND_EVENT:
        return
    name, target = place_of(event)
    raise PromotionTakenError(
        f"{first.by} is promoting {digest_of(first, (name, target))[:19]} as {name} for {target} into "
        f"{event.environment} (since {first.at}, from commit {first.commit or 'unknown'}); this promotion of "
        f"{digest_of(event, (name, target))[:19]} has changed nothing",
        remedy="get that one's lock (`git pull`) and look which of the two is to be; if theirs was given up, "
        f"run this again {_BETWEEN_CLAIM_AND_EVENT.total_seconds() / 60:g} minutes after it began",
    )


def _is_same(one: Event, other: Event) -> bool:
    """Whether two promotions put the same into the same place."""
    place = place_of(other)
    return _places(one).get(place) == digest_of(other, place)


def _places(event: Event) -> dict[Place, str]:
    return {
        **{(item.model, item.target): item.digest for item in event.artifacts},
        **{(f"images-{item.folder}", item.kind): item.digest for item in event.images},
    }


def _name(event: Event) -> str:
    return "/".join(place_of(event))


def _after(latest: Event | None) -> str:
    return hashlib.sha256(latest.key.encode()).hexdigest()[:12] if latest else "first"


def _put(s3: Any, bucket: str, key: str, event: Event, *, replacing: _Held | None) -> str | None:
    """Write a claim if nothing lies there but what it is to replace; S3's code if it did not let it."""
    condition = {"IfMatch": replacing.etag} if replacing else {"IfNoneMatch": "*"}
    try:
        s3.put_object(
            Bucket=bucket,
            Key=key,
            Body=event.to_json().encode(),
            ContentType="application/json",
            **condition,
        )
    except ClientError as error:
        if (code := error_code(error)) in HELD_CODES | AGAIN_CODES:
            return code
        raise
    return None
