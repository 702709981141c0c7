"""Decide which requests are answered: signatures, accounts, bucket policies, and role trust."""
