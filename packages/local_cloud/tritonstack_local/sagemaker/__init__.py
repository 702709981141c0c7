"""SageMaker hosting: the control plane, and a runtime with a real Triton server."""

from tritonstack_local.sagemaker.control_plane.app import SageMakerApp, create_app
from tritonstack_local.sagemaker.unsupported import ACCEPTED_WITHOUT_EFFECT, UNSUPPORTED

__all__ = ["ACCEPTED_WITHOUT_EFFECT", "UNSUPPORTED", "SageMakerApp", "create_app"]
