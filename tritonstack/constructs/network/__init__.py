"""VPC, security groups, and VPC endpoints."""
