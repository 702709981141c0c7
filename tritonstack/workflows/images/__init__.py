"""Custom images of environments: in ECR, or in the Docker engine of this machine."""
