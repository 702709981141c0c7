"""Serve InvokeEndpoint requests: checks, streaming, and metrics."""
