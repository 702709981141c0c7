"""The asyncio front of the local cloud's port: it serves InvokeEndpoint and hands over everything else."""
