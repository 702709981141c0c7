"""SageMaker endpoints of Triton models."""
