"""CDK entry, also installed as `tritonstack-app`: run by the CDK CLI in the project's folder."""

from __future__ import annotations

import sys

from tritonstack.base.errors import TritonstackError
from tritonstack.base.extras import missing_extra


def main() -> None:
    """Synthesize the stacks selected by the CDK context; exit 2 for an invalid file or a missing package."""
    try:
        from stacks.synthesis import synthesize  # noqa: PLC0415 - the extra may be missing
    except ModuleNotFoundError as error:
        sys.exit(missing_extra(error))
    try:
        synthesize()
    except TritonstackError as error:
        print(error.report(), file=sys.stderr)
        sys.exit(error.exit_code)
