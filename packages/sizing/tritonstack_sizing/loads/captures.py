"""Captured requests as a load: what SageMaker's data capture wrote to S3, with its arrival pattern.

Captured requests have a time to the second. Within each second they are spread at random.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tritonstack.base.files import parse_json
from tritonstack_sizing.errors import NoMeasurementsError
from tritonstack_sizing.loads.arrivals import Trace
from tritonstack_sizing.loads.sending import PreparedRequest

MAX_BYTES = 2 * 2**30
"""Captured files that are read at most."""
_READERS = 8


@dataclass(frozen=True)
class CapturedLoad:
    """Captured requests, in order, and when they arrived."""

    requests: tuple[PreparedRequest, ...]
    trace: Trace
    begin: datetime
    """The second of the first request, from which the trace counts."""


def read_capture(
    s3: Any, *, bucket: str, prefix: str, begin: datetime, end: datetime, seed: int
) -> CapturedLoad:
    """Return what was captured below a prefix in a period, `end` excluded."""
    where = f"s3://{bucket}/{prefix}"
    keys = list(_keys(s3, bucket, prefix, begin, end))
    with ThreadPoolExecutor(_READERS) as pool:
        bodies = pool.map(lambda key: (key, s3.get_object(Bucket=bucket, Key=key)["Body"].read()), keys)
        arrivals = [
            captured
            for key, body in bodies
            for captured in _requests(body, origin=f"s3://{bucket}/{key}")
            if begin <= captured[0] < end
        ]
    if not arrivals:
        raise NoMeasurementsError(
            f"{where} has no captured requests from {begin.isoformat()} to {end.isoformat()}",
            remedy="deploy the endpoint with `data_capture`, wait some minutes after its requests, and name "
            "a period with requests; `input` must be captured",
        )
    arrivals.sort(key=lambda arrival: arrival[0])
    first = arrivals[0][0]
    seconds = np.array([(when - first).total_seconds() for when, _ in arrivals])
    within = np.random.default_rng(seed).uniform(0, 1, len(arrivals))
    order = np.argsort(seconds + within, kind="stable")
    return CapturedLoad(
        tuple(arrivals[index][1] for index in order),
        Trace((seconds + within)[order], float(seconds[-1]) + 1.0),
        first,
    )


def _keys(s3: Any, bucket: str, prefix: str, begin: datetime, end: datetime) -> Iterator[str]:
    """Yield the files whose hour is in the period; their names end with year/month/day/hour/name."""
    size = 0
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for item in page.get("Contents", ()):
            hour = "/".join(item["Key"].split("/")[-5:-1])
            try:
                written = datetime.strptime(hour, "%Y/%m/%d/%H").replace(tzinfo=UTC)
            except ValueError:
                continue
            # A file is written at most some minutes after its requests, perhaps in the next hour.
            if (
                written.timestamp() + 3600 <= begin.timestamp()
                or written.timestamp() - 3600 > end.timestamp()
            ):
                continue
            size += item["Size"]
            if size > MAX_BYTES:
                raise NoMeasurementsError(
                    f"s3://{bucket}/{prefix} has more than {MAX_BYTES / 2**30:.0f} GiB in this period",
                    remedy="name a shorter period",
                )
            yield item["Key"]


def _requests(body: bytes, *, origin: str) -> Iterator[tuple[datetime, PreparedRequest]]:
    for number, line in enumerate(body.splitlines(), start=1):
        try:
            record = parse_json(line)
            sent = record["captureData"].get("endpointInput")
            when = datetime.fromisoformat(record["eventMetadata"]["inferenceTime"])
            request = None if sent is None else _request(sent)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise NoMeasurementsError(
                f"{origin}:{number}: not a record of SageMaker's data capture "
                f"({type(error).__name__}: {error})",
                remedy="name the prefix of an endpoint's captured data",
            ) from error
        if request is not None:
            yield when, request


def _request(sent: Mapping[str, Any]) -> PreparedRequest:
    data = sent["data"]
    body = base64.b64decode(data, validate=True) if sent["encoding"] == "BASE64" else data.encode()
    return PreparedRequest(body, sent["observedContentType"])
