"""Run the process behind `start_detached` (`python -m tritonstack_local`); users run `tritonstack up`."""

from __future__ import annotations

import argparse
import logging
import sys

from tritonstack.base.errors import TritonstackError
from tritonstack_local.cloud_folder import LOG_BYTES, CloudLog, log_path
from tritonstack_local.process import serve_cloud
from tritonstack_local.settings import CloudSettings


def main() -> None:
    """Run a cloud detached from the process that started it."""
    parser = argparse.ArgumentParser(prog="python -m tritonstack_local", description=__doc__)
    parser.add_argument("--settings", type=CloudSettings.from_json, required=True, help="as JSON")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    arguments = parser.parse_args()
    path = log_path(arguments.settings.state_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        handlers=[CloudLog(path, maxBytes=LOG_BYTES, backupCount=2)],
    )
    logging.getLogger("botocore").setLevel(logging.WARNING)
    try:
        serve_cloud(arguments.settings, port=arguments.port)
    except TritonstackError as error:
        # The parent process shows the end of this log.
        sys.exit(str(error))


if __name__ == "__main__":
    main()
