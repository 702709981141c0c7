"""Servers of models: artifacts, limits, logs, and how to start one."""
