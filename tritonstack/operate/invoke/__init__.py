"""Send requests to deployed endpoints, and write them for other programs."""
