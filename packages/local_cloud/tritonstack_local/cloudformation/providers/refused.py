"""Resource types that are rejected, each with its reason.

A type that stands neither here nor among the providers is refused too, as unrecognised.
"""

from collections.abc import Mapping

from tritonstack_local.sagemaker.control_plane.refusals import NO_COMPONENTS

_NO_PROVIDER = (
    "The embedded cloud does not offer connections: nobody could complete the handshake with a Git provider. "
    "A pipeline's source can lie in S3."
)
REFUSED_TYPES: Mapping[str, str] = {
    "AWS::CodeConnections::Connection": _NO_PROVIDER,
    "AWS::CodeStarConnections::Connection": _NO_PROVIDER,
    "AWS::SageMaker::InferenceComponent": (
        f"The embedded cloud does not offer inference components: {NO_COMPONENTS}."
    ),
}
