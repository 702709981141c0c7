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
    ModelNamesError,
    ModelNotReadyError,
    ModelOutOfMemoryError,
    ModelRequestError,
    ModelTimeoutError,
    MultiModelError,
    NoResponseError,
    QueuedRequestError,
    RequestEncodingError,
    RequestFacts,
    RequestRejectedError,
    ServiceFailedError,
    ServiceUnavailableError,
    StreamFailedError,
    TargetNotFoundError,
    ThrottledError,
    UnknownModelError,
    UnsupportedReplyError,
    UnsupportedSettingError,
)
from tritonstack.client.model_names import ModelNames
from tritonstack.client.queued import QueuedEndpointClient, QueuedInference

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
    "ModelNames",
    "ModelNamesError",
    "ModelNotReadyError",
    "ModelOutOfMemoryError",
    "ModelRequestError",
    "ModelTimeoutError",
    "MultiModelError",
    "NoResponseError",
    "QueuedEndpointClient",
    "QueuedInference",
    "QueuedRequestError",
    "RequestEncodingError",
    "RequestFacts",
    "RequestRejectedError",
    "ScoredClass",
    "ServiceFailedError",
    "ServiceUnavailableError",
    "StreamFailedError",
    "TargetNotFoundError",
    "ThrottledError",
    "TopClasses",
    "UnknownModelError",
    "UnsupportedReplyError",
    "UnsupportedSettingError",
    "decode_reply",
    "encode_request",
    "parse_classes",
]
