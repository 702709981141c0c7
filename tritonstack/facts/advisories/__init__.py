"""Published vulnerabilities of Triton releases."""
