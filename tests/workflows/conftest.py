"""The moto account that tests of the commands also use."""

from tests.cli.conftest import account

__all__ = ["account"]
