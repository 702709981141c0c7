"""Remove a cloud's containers after it ends (`python -m tritonstack_local.container_lifeline RUN`).

It waits for the end of its standard input, whose other end the cloud holds; see container_ground.py.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Wait, and then remove what the run has left."""
    sys.stdin.buffer.read()
    # Imported here: while it waits, it is to cost next to nothing.
    from tritonstack.runtime.docker_engine import docker_engine  # noqa: PLC0415
    from tritonstack_local.container_group import RUN_LABEL, remove_labelled  # noqa: PLC0415

    remove_labelled(docker_engine(), RUN_LABEL, sys.argv[1])


if __name__ == "__main__":
    main()
