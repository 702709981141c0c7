"""Serve InvokeEndpoint requests: servers, artifacts, logs, and metrics."""
