"""TS6xx: the local machine: installation, server, and local cloud."""

from __future__ import annotations

from collections.abc import Mapping

from tritonstack.reference.error_codes.kinds import Kind

MACHINE: Mapping[str, Kind] = {
    "TS601": Kind(
        "Required program not found",
        "This machine lacks a Triton server of the right version and backends, the CDK CLI, npm, or a "
        "Docker engine, or one of them could not be installed. Run `tritonstack setup`; for Docker, "
        "start an engine or set `DOCKER_HOST`.",
    ),
    "TS603": Kind(
        "Server would be exposed",
        "The system forbids user namespaces, so Triton would listen on all network interfaces without "
        "authentication. Allow user namespaces, or accept the exposure with `--expose`.",
    ),
    "TS604": Kind(
        "Triton server failed",
        "The local server ended, did not become ready, or did not answer, or the container's `serve` "
        "program rejects the model folder. The end of its log is in the message.",
    ),
    "TS608": Kind(
        "Local cloud is not running",
        "The environment is in the local cloud, and that is not running. Start it with `tritonstack up "
        "--detach`.",
    ),
    "TS611": Kind(
        "Local cloud failed",
        "The local cloud did not start or stop, already runs, runs for another account, or its port is "
        "in use. Stop it with `tritonstack down`, or choose another account, folder, or `--port`. The "
        "end of its log is in the message.",
    ),
    "TS612": Kind(
        "Local cloud's state cannot be used",
        "The state folder is damaged, in use by another process, or writable by other users. Restore a "
        "copy, or remove it with `tritonstack down --forget`.",
    ),
    "TS615": Kind(
        "Python package not installed",
        "The command needs a package that is not installed. Run the command in the message.",
    ),
    "TS616": Kind(
        "Disk or memory too small",
        "The disk is full, the folder is not writable, a file is in its place, or the build needs more "
        "memory than is available. Check the path and its permissions, free space, build fewer models "
        "at once, or use a larger machine.",
    ),
    "TS618": Kind(
        "git or GitHub's command line failed",
        "A step of the delivery workflows called git or `gh`. The message has their output; check the "
        "permissions of the job and its token.",
    ),
}
