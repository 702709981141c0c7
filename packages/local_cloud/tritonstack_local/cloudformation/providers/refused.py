"""Rejected resource types, with the reasons. Types neither here nor in PROVIDERS are unrecognized."""

from collections.abc import Mapping

from tritonstack_local.sagemaker.control_plane.refusals import NO_COMPONENTS
from tritonstack_local.service.errors import sentence

_NO_PROVIDER = (
    "The local cloud does not support connections to Git providers. Use S3 as the source of a pipeline."
)
REFUSED_TYPES: Mapping[str, str] = {
    "AWS::CodeConnections::Connection": _NO_PROVIDER,
    "AWS::CodeStarConnections::Connection": _NO_PROVIDER,
    "AWS::SageMaker::InferenceComponent": sentence(NO_COMPONENTS),
}
