"""Operate running environments through boto3 and the CDK CLI."""
