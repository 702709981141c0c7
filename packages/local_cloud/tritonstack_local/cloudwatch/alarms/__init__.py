"""CloudWatch alarms: specification, evaluation, state, and notifications."""
