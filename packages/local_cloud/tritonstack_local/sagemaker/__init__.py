"""SageMaker hosting for the embedded cloud: the control plane and the runtime, with a real Triton behind."""

from tritonstack_local.sagemaker.control_plane.app import SageMakerApp, create_app
from tritonstack_local.sagemaker.control_plane.refusals import ACCEPTED_WITHOUT_EFFECT, REFUSED

__all__ = ["ACCEPTED_WITHOUT_EFFECT", "REFUSED", "SageMakerApp", "create_app"]
