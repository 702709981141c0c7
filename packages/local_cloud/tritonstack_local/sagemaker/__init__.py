"""SageMaker hosting: the control plane, and a runtime with a real Triton server."""

from tritonstack_local.sagemaker.app import SageMakerApp, create_app
from tritonstack_local.sagemaker.rules import ACCEPTED_WITHOUT_EFFECT, UNSUPPORTED

__all__ = ["ACCEPTED_WITHOUT_EFFECT", "UNSUPPORTED", "SageMakerApp", "create_app"]
