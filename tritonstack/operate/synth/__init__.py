"""Synthesize stacks with the CDK CLI, and read templates."""
