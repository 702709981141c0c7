"""The moto account and the check of results that tests of the commands also use."""

from tests.cli.conftest import account, json_results

__all__ = ["account", "json_results"]
