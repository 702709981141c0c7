"""A serializer pair that lets the SageMaker Python SDK (sagemaker-core) talk to a Triton endpoint.

    endpoint = Endpoint.get("embedder")
    endpoint.serializer, endpoint.deserializer = TritonSerializer(), TritonDeserializer()
    reply = endpoint.invoke(body={"text": ["a sentence"]}, content_type=endpoint.serializer.CONTENT_TYPE)
    reply.body["embedding"]

The SDK needs the content type before the body, but Triton's content type contains the size of the JSON
header. So the serializer pads every header to the same size with spaces. It is stateless, so threads may
share it. Needs the extra `tritonstack[sagemaker]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sagemaker.core.deserializers.base import BaseDeserializer
from sagemaker.core.serializers.base import BaseSerializer

from tritonstack.client.codec import (
    BINARY_CONTENT_TYPE,
    JSON_CONTENT_TYPE,
    Array,
    Tensor,
    content_type_for,
    decode_reply,
    encode_request,
)
from tritonstack.client.errors import RequestEncodingError


class ReadableStream(Protocol):
    """The stream passed to a deserializer: botocore's StreamingBody."""

    def read(self) -> bytes:
        """Return the whole body."""

    def close(self) -> None:
        """Release the connection."""


class TritonSerializer(BaseSerializer):  # type: ignore[misc, unused-ignore]
    """Writes a mapping of names to arrays or strings, its JSON header padded to one fixed size."""

    def __init__(self, *, header_size: int = 1024) -> None:
        self.header_size = header_size

    @property
    def CONTENT_TYPE(self) -> str:  # noqa: N802  the SDK's own spelling
        """Constant, because every header has the same size."""
        return content_type_for(self.header_size)

    def serialize(self, data: Mapping[str, Tensor]) -> bytes:
        """Encode `data` with its JSON header padded with spaces."""
        request = encode_request(data)
        padding = self.header_size - request.header_size
        if padding < 0:
            raise RequestEncodingError(
                f"the JSON header of this request needs {request.header_size} bytes, the serializer's is "
                f"{self.header_size}",
                remedy=f"use TritonSerializer(header_size={request.header_size}) or larger",
            )
        header, tensors = request.body[: request.header_size], request.body[request.header_size :]
        return header + b" " * padding + tensors


class TritonDeserializer(BaseDeserializer):  # type: ignore[misc, unused-ignore]
    """Reads Triton's reply, binary or JSON, into a mapping of names to arrays."""

    @property
    def ACCEPT(self) -> tuple[str, ...]:  # noqa: N802  the SDK's own spelling
        """The content types that Triton responds with."""
        return (BINARY_CONTENT_TYPE, JSON_CONTENT_TYPE)

    def deserialize(self, stream: ReadableStream, content_type: str) -> dict[str, Array]:
        """Read the whole stream and decode it."""
        try:
            body = stream.read()
        finally:
            stream.close()
        return dict(decode_reply(body, content_type=content_type).outputs)
