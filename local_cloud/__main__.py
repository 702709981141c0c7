"""`python -m local_cloud`: the process behind `start_detached`. People use `tritonstack up`."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from local_cloud.process import be_the_cloud


def main() -> None:
    """Run a cloud, detached from whoever started it."""
    parser = argparse.ArgumentParser(prog="python -m local_cloud", description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0, help="0 chooses a free one")
    parser.add_argument("--account", required=True)
    parser.add_argument("--region", required=True)
    parser.add_argument("--server-home", type=Path, required=True)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("botocore").setLevel(logging.WARNING)
    be_the_cloud(
        state_dir=given.state_dir,
        port=given.port,
        account_id=given.account,
        region=given.region,
        server_home=given.server_home,
    )


if __name__ == "__main__":
    main()
