"""The endpoints of an environment: records and rules."""
