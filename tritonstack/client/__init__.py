"""The wire to a Triton endpoint on SageMaker: arrays in, arrays out, a typed error for each way it fails.

client = EndpointClient(endpoint_name="embedder", runtime=boto3.client("sagemaker-runtime"))
vectors = client.infer({"text": ["a sentence", "another one"]})["embedding"]
"""

from tritonstack.client.client import EndpointClient
from tritonstack.client.codec import EncodedRequest, InferenceReply, decode_reply, encode_request
from tritonstack.client.errors import (
    AccessRefusedError,
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
    RequestRefusedError,
    ServiceFailedError,
    ServiceUnavailableError,
    ThrottledError,
)

__all__ = [
    "AccessRefusedError",
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
    "RequestRefusedError",
    "ServiceFailedError",
    "ServiceUnavailableError",
    "ThrottledError",
    "decode_reply",
    "encode_request",
]
