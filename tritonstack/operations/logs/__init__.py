"""Read the logs of endpoints and builds from CloudWatch Logs."""
