"""Build artifacts on this machine or in the account, and publish them."""
