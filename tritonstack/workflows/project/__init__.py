"""Check a project's files, and derive quotas and the delivery order from them."""
