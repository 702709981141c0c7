"""Send requests to an asynchronous endpoint through the environment's data bucket.

The bucket's lifecycle rules delete them like any other request.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from numpy.typing import NDArray

from tritonstack.base.errors import aws_error_code
from tritonstack.base.naming import request_prefix
from tritonstack.client.codec import BINARY_CONTENT_TYPE, content_type_for, decode_reply, encode_request
from tritonstack.client.errors import EndpointClientError, MalformedReplyError, RequestFacts
from tritonstack.client.failures import invocation_error
from tritonstack.operations.smoke.deadlines import Deadline

Array = NDArray[Any]
LONGEST_SHOWN = 500


class QueuedRequestError(EndpointClientError):
    """An asynchronous endpoint failed or timed out."""

    code = "TS517"


@dataclass(frozen=True, kw_only=True)
class QueuedEndpoint:
    """An asynchronous endpoint of this project."""

    endpoint_name: str
    runtime: Any
    s3: Any
    bucket: str
    """The environment's data bucket."""
    deadline: Deadline

    def infer(
        self, inputs: Mapping[str, Array], *, parameters: Mapping[str, int | str | bool]
    ) -> Mapping[str, Array]:
        """Queue a request and wait for its answer."""
        request = encode_request(inputs, parameters=parameters)
        key = f"{request_prefix(self.endpoint_name)}smoke/{uuid.uuid4()}"
        try:
            self.s3.put_object(
                Bucket=self.bucket, Key=key, Body=request.body, ContentType=request.content_type
            )
            accepted = self.runtime.invoke_endpoint_async(
                EndpointName=self.endpoint_name,
                InputLocation=f"s3://{self.bucket}/{key}",
                ContentType=request.content_type,
            )
            body, content_type = self._wait(accepted["OutputLocation"], accepted.get("FailureLocation"))
        except (ClientError, BotoCoreError) as raised:
            raise invocation_error(raised, request=RequestFacts(self.endpoint_name)) from raised
        return decode_reply(body, content_type=_content_type(body, content_type)).outputs

    def _wait(self, output: str, failure: str | None) -> tuple[bytes, str]:
        begun, until = self.deadline.now, self.deadline.for_an_answer
        while True:
            answer = self._find(output)
            if answer is not None:
                return answer
            failed = self._find(failure) if failure else None
            if failed is not None:
                raise QueuedRequestError(
                    f"endpoint {self.endpoint_name}: {failed[0].decode(errors='replace')[:LONGEST_SHOWN]}",
                    remedy="see the container's messages in the endpoint's log group",
                )
            if self.deadline.now >= until:
                raise QueuedRequestError(
                    f"endpoint {self.endpoint_name}: no answer at {output} within {until - begun:.0f} s",
                    remedy="check the endpoint's queue and instance count: it may have no instance yet",
                )
            self.deadline.pause()

    def _find(self, url: str) -> tuple[bytes, str] | None:
        bucket, _, key = url.removeprefix("s3://").partition("/")
        try:
            found = self.s3.get_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if aws_error_code(error) in ("404", "NoSuchKey"):
                return None
            raise
        return found["Body"].read(), found.get("ContentType", "")


def _content_type(body: bytes, stored: str) -> str:
    """Return the content type of an answer; if unknown, the length of its JSON header."""
    if stored.startswith(BINARY_CONTENT_TYPE):
        return stored
    try:
        # In Latin-1, one character is one byte, so the header length is in bytes.
        _, size = json.JSONDecoder().raw_decode(body.decode("latin-1"))
    except ValueError as error:
        raise MalformedReplyError(f"it does not start with JSON ({error})") from error
    return content_type_for(size)
