"""Check an existing Triton model repository against the contract of Triton on SageMaker."""
