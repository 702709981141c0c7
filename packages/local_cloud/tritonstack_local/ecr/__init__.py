"""ECR image layers: upload, check, and download. moto implements the rest of ECR."""
