"""Destroy environments and expired instances, and what they leave."""
