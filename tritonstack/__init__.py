"""Deploy machine-learning models to NVIDIA Triton on Amazon SageMaker with AWS CDK."""
