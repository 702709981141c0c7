"""Claim an entry of an environment's lock, so that concurrent promotions cannot conflict.

Before a lock changes, the promotion is written to the environment's bucket, provided that no other promotion
of the same entry was written since the entry's last change. S3 accepts exactly one. A later promotion of the
same artifact adopts the first one's author and time, so both checkouts write the same lock and event; one of
another artifact fails.

A claim without an event belongs to a promotion that was killed. Rerunning it resumes the claim; after a
while, others may replace it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import TritonstackError, aws_error_code
from tritonstack.base.naming import PROMOTIONS
from tritonstack.operations.aws import Cloud
from tritonstack.records.events import Event, EventKind
from tritonstack.reference.conditional_writes import AGAIN_CODES, CONFLICT_CODES

_BETWEEN_CLAIM_AND_EVENT = timedelta(minutes=10)
"""Only a small file is written between the two."""
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
"""One pause per write: on concurrent writes, S3 makes both writers retry."""
CHANGES: tuple[EventKind, ...] = ("built", "promoted", "rolled-back")
"""Events that change a lock."""

Place = tuple[str, str]
"""A model and a target, or a folder of containers/ and a machine type."""


class PromotionTakenError(TritonstackError):
    """Another promotion has claimed the same entry."""

    code = "TS419"


@dataclass(frozen=True)
class Claim:
    """A promotion that may change the lock."""

    event: Event
    claimed: bool
    """False if another or a killed promotion had claimed the entry, and this one continues it."""


@dataclass(frozen=True)
class _ExistingClaim:
    """A claim in the bucket and its ETag."""

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
    """Claim the entry that an event changes.

    `history` are the environment's events of CHANGES, oldest first.
    """
    latest = latest_change(history, event)
    if latest and latest.kind == "promoted" and _is_same(latest, event) and latest.note == event.note:
        return Claim(latest, claimed=False)
    s3 = cloud.client("s3")
    key = f"{PROMOTIONS}{_name(event)}/{_after(latest)}.json"
    given_up: _ExistingClaim | None = None
    for pause in _PAUSES_S:
        answer = _put(s3, bucket, key, event, replacing=given_up)
        if answer is None:
            return Claim(event, claimed=True)
        existing = _read_claim(s3, bucket, key) if answer in CONFLICT_CODES else None
        if existing is None:
            sleep(pause)
        elif _is_same(existing.event, event):
            return Claim(existing.event, claimed=False)
        else:
            _require_given_up(existing.event, event, now)
        given_up = existing
    raise PromotionTakenError(
        f"cannot claim s3://{bucket}/{key}: others keep writing it; nothing was changed",
        remedy="wait for the other promotions, then rerun the command",
    )


def latest_change(history: Sequence[Event], event: Event) -> Event | None:
    """Return the last event that changed the same entry."""
    place = place_of(event)
    return next((past for past in reversed(history) if past.kind in CHANGES and place in _places(past)), None)


def place_of(event: Event) -> Place:
    """Return the only entry that a promotion's event changes."""
    (place,) = _places(event)
    return place


def digest_of(event: Event, place: Place) -> str:
    """Return the digest that an event gives an entry."""
    return _places(event)[place]


def _read_claim(s3: Any, bucket: str, key: str) -> _ExistingClaim | None:
    """Return the claim of an entry; None if it has been deleted."""
    try:
        found = s3.get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if aws_error_code(error) == "NoSuchKey":
            return None
        raise
    return _ExistingClaim(Event.model_validate_json(found["Body"].read()), found["ETag"])


def _require_given_up(first: Event, event: Event, now: datetime) -> None:
    """Reject the replacement of a promotion that may still be running."""
    if now - datetime.fromisoformat(first.at) > _BETWEEN_CLAIM_AND_EVENT:
        return
    name, target = place_of(event)
    raise PromotionTakenError(
        f"{first.by} is promoting {digest_of(first, (name, target))[:19]} as {name} for {target} into "
        f"{event.environment} (since {first.at}, from commit {first.commit or 'unknown'}); the promotion of "
        f"{digest_of(event, (name, target))[:19]} changed nothing",
        remedy="run `git pull` to get that promotion's lock and decide which one to keep; "
        f"if it was abandoned, rerun {_BETWEEN_CLAIM_AND_EVENT.total_seconds() / 60:g} minutes after its "
        "start",
    )


def _is_same(one: Event, other: Event) -> bool:
    """Return whether two promotions set the same entry to the same digest."""
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


def _put(s3: Any, bucket: str, key: str, event: Event, *, replacing: _ExistingClaim | None) -> str | None:
    """Write a claim if there is none, or replace the given one; return S3's error code on a conflict."""
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
        if (code := aws_error_code(error)) in CONFLICT_CODES | AGAIN_CODES:
            return code
        raise
    return None
