"""Client of Triton endpoints on SageMaker: arrays in, arrays out, and a typed error for each failure.

client = EndpointClient(endpoint_name="embedder")
vectors = client.infer({"text": ["a sentence", "another one"]})["embedding"]
"""

from tritonstack.client.classification import ScoredClass, TopClasses, parse_classes
from tritonstack.client.client import EndpointClient
from tritonstack.client.codec import EncodedRequest, InferenceReply, decode_reply, encode_request
from tritonstack.client.errors import (
    AccessDeniedError,
    ConnectionFailedError,
    EndpointClientError,
    EndpointNotFoundError,
    InvocationError,
    InvocationTimeoutError,
    MalformedReplyError,
    ModelError,
    ModelFailedError,
    ModelNotReadyError,
    ModelOutOfMemoryError,
    ModelRequestError,
    ModelTimeoutError,
    MultiModelError,
    RequestEncodingError,
    RequestFacts,
    RequestRejectedError,
    ServiceFailedError,
    ServiceUnavailableError,
    ThrottledError,
    UnsupportedReplyError,
    UnsupportedSettingError,
)

__all__ = [
    "AccessDeniedError",
    "ConnectionFailedError",
    "EncodedRequest",
    "EndpointClient",
    "EndpointClientError",
    "EndpointNotFoundError",
    "InferenceReply",
    "InvocationError",
    "InvocationTimeoutError",
    "MalformedReplyError",
    "ModelError",
    "ModelFailedError",
    "ModelNotReadyError",
    "ModelOutOfMemoryError",
    "ModelRequestError",
    "ModelTimeoutError",
    "MultiModelError",
    "RequestEncodingError",
    "RequestFacts",
    "RequestRejectedError",
    "ScoredClass",
    "ServiceFailedError",
    "ServiceUnavailableError",
    "ThrottledError",
    "TopClasses",
    "UnsupportedReplyError",
    "UnsupportedSettingError",
    "decode_reply",
    "encode_request",
    "parse_classes",
]
