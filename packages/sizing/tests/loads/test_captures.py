"""Captured requests as a load."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import numpy as np
import pytest

from tests.moto_aws import simulated_aws
from tritonstack_sizing.errors import NoMeasurementsError
from tritonstack_sizing.loads.captures import CapturedLoad, read_capture

BEGIN = datetime(2026, 11, 24, 9, 0, tzinfo=UTC)
PREFIX = "capture/tritonstack-dev-search/"


def record(second: int, body: bytes = b"{}", *, encoding: str = "JSON") -> dict[str, Any]:
    data = base64.b64encode(body).decode() if encoding == "BASE64" else body.decode()
    sent = {"observedContentType": "application/json", "mode": "INPUT", "data": data, "encoding": encoding}
    when = f"{BEGIN + timedelta(seconds=second):%Y-%m-%dT%H:%M:%SZ}"
    return {"captureData": {"endpointInput": sent}, "eventMetadata": {"inferenceTime": when}}


@pytest.fixture
def s3():
    with simulated_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="data")
        yield client


def put(s3: Any, *records: Any, hour: str = "2026/11/24/09", name: str = "00-00.jsonl") -> None:
    lines = "".join(line if isinstance(line, str) else f"{json.dumps(line)}\n" for line in records)
    s3.put_object(
        Bucket="data", Key=f"{PREFIX}tritonstack-dev-search/main/{hour}/{name}", Body=lines.encode()
    )


def read(s3: Any, *, seconds: int = 3600) -> CapturedLoad:
    end = BEGIN + timedelta(seconds=seconds)
    return read_capture(s3, bucket="data", prefix=PREFIX, begin=BEGIN, end=end, seed=1)


def test_the_arrival_pattern_and_the_bodies_are_those_of_the_capture(s3):
    counts = [3, 0, 50, 7, 0, 0, 20]
    records = [
        record(10 + second, f"body {second}".encode(), encoding="BASE64")
        for second, count in enumerate(counts)
        for _ in range(count)
    ]
    put(s3, *records[40:])
    put(s3, *records[:40], name="01-00.jsonl")
    captured = read(s3)
    assert np.bincount(captured.trace.offsets.astype(int), minlength=7).tolist() == counts
    assert captured.trace.seconds == 7.0
    assert captured.begin == BEGIN + timedelta(seconds=10)
    assert (np.diff(captured.trace.offsets) >= 0).all()
    seconds = [int(request.body.split()[1]) for request in captured.requests]
    assert seconds == sorted(second for second, count in enumerate(counts) for _ in range(count))


def test_only_the_period_is_read(s3):
    answer = {**record(1), "captureData": {"endpointOutput": {}}}  # without its request
    put(s3, record(-1), record(0), answer, record(59), record(60))
    put(s3, record(30), hour="2026/11/24/10")  # written in the next hour
    put(s3, "not read", hour="2026/11/23/09")
    assert len(read(s3, seconds=60).requests) == 3


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"captureData": 3}', json.dumps({**record(1), "eventMetadata": {}})]
)
def test_another_file_is_rejected_with_its_line(s3, line):
    put(s3, record(1), f"{line}\n")
    with pytest.raises(NoMeasurementsError, match=r"s3://data/.*00-00\.jsonl:2: not a record of SageMaker"):
        read(s3)
