"""The console script `tritonstack`: name the missing extra if the command line is not installed."""

from __future__ import annotations

import sys

from tritonstack.base.extras import missing_extra


def main() -> None:
    """Run the command line."""
    try:
        from tritonstack.cli.main import main as run  # noqa: PLC0415 - the extra may be missing
    except ModuleNotFoundError as error:
        sys.exit(missing_extra(error))
    run()
