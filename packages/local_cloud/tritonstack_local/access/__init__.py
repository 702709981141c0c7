"""Decide which requests are answered: signatures, accounts, and role trust."""
