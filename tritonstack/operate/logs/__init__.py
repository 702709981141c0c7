"""Read the logs of endpoints and builds."""
