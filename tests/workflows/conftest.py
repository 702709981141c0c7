"""The AWS account of moto that the tests of the commands use, too."""

from tests.cli.conftest import account

__all__ = ["account"]
