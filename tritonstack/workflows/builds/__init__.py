"""Build artifacts on this machine or in the account, publish them, and lock them."""
