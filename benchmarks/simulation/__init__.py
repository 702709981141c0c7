"""Compare the scaling simulator with the local cloud."""
