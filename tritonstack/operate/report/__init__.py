"""The report: a page about models, environments, and their history."""
