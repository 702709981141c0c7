"""Import models that were built elsewhere: Triton repositories, Merlin exports, and MLflow models."""
