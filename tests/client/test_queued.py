"""Asynchronous endpoints: what is uploaded and called, and how answers, failures, and delays are reported."""

import asyncio
import io
import json
from typing import Any

import numpy as np
import pytest
from botocore.exceptions import ClientError

from tests.operate.strict_aws import checked
from tritonstack.client import AccessDeniedError, QueuedEndpointClient, QueuedRequestError

PREFIX = "s3://data/requests/t-dev-nightly/"
X = {"x": np.ones((1, 2), np.float32)}


class Queue:
    """Objects of a bucket, and an endpoint that stores an answer or a failure after some looks."""

    def __init__(self, *, after: int = 0, failure: str = "", denied: bool = False) -> None:
        self.objects: dict[str, tuple[bytes, str]] = {}
        self.after, self.failure, self.denied = after, failure, denied
        self.looks, self.now = 0, 0.0
        self.called: dict[str, Any] = {}

    def client(self) -> QueuedEndpointClient:
        return QueuedEndpointClient(
            endpoint_name="t-dev-nightly",
            input_prefix=PREFIX,
            runtime=self,
            s3=self,
            sleep=self.sleep,
            clock=lambda: self.now,
        )

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def put_object(self, **fields: Any) -> None:
        checked("s3", "PutObject", fields)
        self.objects[f"s3://{fields['Bucket']}/{fields['Key']}"] = (fields["Body"], fields["ContentType"])

    def invoke_endpoint_async(self, **fields: Any) -> dict[str, Any]:
        checked("sagemaker-runtime", "InvokeEndpointAsync", fields)
        self.called = fields
        return {"OutputLocation": "s3://data/answers/1", "FailureLocation": "s3://data/failures/1"}

    def get_object(self, **fields: Any) -> dict[str, Any]:
        checked("s3", "GetObject", fields)
        if self.denied:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetObject")
        is_answer = fields["Key"] == "answers/1"
        self.looks += is_answer
        if self.looks <= self.after or is_answer == bool(self.failure):
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": "none"}}, "GetObject")
        if self.failure:
            return {"Body": io.BytesIO(self.failure.encode())}
        body, content_type = self.objects[self.called["InputLocation"]]
        size = int(content_type.rpartition("=")[2])
        header = json.dumps({"outputs": json.loads(body[:size])["inputs"]}).encode()
        return {"Body": io.BytesIO(header + body[size:])}  # SageMaker stores no content type of ours


@pytest.mark.parametrize("after", [0, 3])
def test_an_answer_is_waited_for(after):
    queue = Queue(after=after)
    assert queue.client().infer(X)["x"].tolist() == [[1.0, 1.0]]
    assert asyncio.run(queue.client().ainfer(X))["x"].tolist() == [[1.0, 1.0]]
    assert queue.called["InputLocation"].startswith(PREFIX)
    assert len(queue.objects) == 2
    assert queue.called["ContentType"] == queue.objects[queue.called["InputLocation"]][1]


def test_a_request_can_be_polled():
    queue = Queue(after=1)
    queued = queue.client().submit(X)
    assert queue.client().poll(queued) is None
    outputs = queue.client().poll(queued)
    assert outputs is not None
    assert list(outputs) == ["x"]


def test_a_stored_failure_is_raised():
    with pytest.raises(QueuedRequestError, match="t-dev-nightly: CUDA error"):
        Queue(failure="CUDA error").client().infer(X)


def test_an_answer_that_does_not_come_is_an_error():
    queue = Queue(after=10**9)
    with pytest.raises(QueuedRequestError, match=r"s3://data/answers/1 within 30 s"):
        queue.client().infer(X, timeout_s=30)
    assert queue.now == 30


def test_missing_rights_are_an_error_at_once():
    queue = Queue(denied=True)
    with pytest.raises(AccessDeniedError):
        queue.client().infer(X)
    assert queue.now == 0
