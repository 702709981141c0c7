"""Accounts, scopes (account and region), role trust, and bucket policies."""
