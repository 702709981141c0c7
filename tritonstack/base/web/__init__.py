"""Rules for web servers on this machine."""
