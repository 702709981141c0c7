"""Send requests to endpoints, and print them for other programs."""
