"""Remove a cloud's containers after it ends (`python -m tritonstack_local.container_lifeline RUN`).

Waits until its standard input closes, which the cloud keeps open; see container_group.py.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Wait for the end of the run, then remove its containers."""
    sys.stdin.buffer.read()
    # Imported here: the waiting process should use little memory.
    from tritonstack.triton.docker_engine import docker_engine  # noqa: PLC0415
    from tritonstack_local.container_group import RUN_LABEL, remove_labelled  # noqa: PLC0415

    remove_labelled(docker_engine(), RUN_LABEL, sys.argv[1])


if __name__ == "__main__":
    main()
