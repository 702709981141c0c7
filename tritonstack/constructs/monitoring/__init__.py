"""Alarms, dashboards, metrics, and logs."""
