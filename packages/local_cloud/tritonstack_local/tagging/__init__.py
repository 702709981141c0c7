"""The Resource Groups Tagging API: tagged resources of all services."""
