"""SageMaker hosting: the control plane, and a runtime with a real Triton server."""

from tritonstack_local.sagemaker.control_plane.app import SageMakerApp, create_app
from tritonstack_local.sagemaker.control_plane.refusals import ACCEPTED_WITHOUT_EFFECT, REFUSED

__all__ = ["ACCEPTED_WITHOUT_EFFECT", "REFUSED", "SageMakerApp", "create_app"]
