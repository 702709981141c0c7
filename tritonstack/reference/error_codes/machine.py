"""TS6xx: the local machine: installation, server, and local cloud."""

from __future__ import annotations

from collections.abc import Mapping

from tritonstack.reference.error_codes.kinds import Kind

MACHINE: Mapping[str, Kind] = {
    "TS601": Kind(
        "Triton server not found",
        "This machine has no Triton server, or one of another version or without a backend that the model "
        "needs. Run `tritonstack setup`.",
    ),
    "TS602": Kind(
        "Installation failed",
        "The Triton server or the CDK CLI could not be installed. Check the connection to the package "
        "index, and rerun `tritonstack setup`.",
    ),
    "TS603": Kind(
        "Server would be exposed",
        "The system forbids user namespaces, so Triton would listen on all network interfaces without "
        "authentication. Allow user namespaces, or accept the exposure with `--expose`.",
    ),
    "TS604": Kind(
        "Triton server did not start",
        "The server ended or did not become ready, or the container's `serve` program rejects the model "
        "folder. The end of its log is in the message.",
    ),
    "TS605": Kind(
        "Triton server did not answer",
        "A request to the local Triton server timed out, or the connection broke. Read the server's log.",
    ),
    "TS606": Kind(
        "No usable CDK CLI or npm",
        "The CDK CLI is missing or has another version than this release was tested with, or npm to install "
        "it is missing. Install Node.js, and run `tritonstack setup`.",
    ),
    "TS607": Kind(
        "No Docker engine",
        "No Docker engine answers on this machine. Start one, or set `DOCKER_HOST`.",
    ),
    "TS608": Kind(
        "Local cloud is not running",
        "The environment is in the local cloud, and that is not running. Start it with `tritonstack up "
        "--detach`.",
    ),
    "TS609": Kind(
        "Local cloud is already running",
        "Another local cloud uses the same state folder. Stop it with `tritonstack down`, or use another "
        "account or folder.",
    ),
    "TS610": Kind(
        "Port is in use",
        "Another program uses the port. Choose another `--port`, or none to get a free one.",
    ),
    "TS611": Kind(
        "Local cloud failed",
        "The local cloud did not start or stop. The end of its log is in the message.",
    ),
    "TS612": Kind(
        "Local cloud's state cannot be used",
        "The state folder is damaged, in use by another process, or writable by other users. Restore a "
        "copy, or remove it with `tritonstack down --forget`.",
    ),
    "TS613": Kind(
        "Local cloud's state cannot be written",
        "The disk is full, or the state folder is not writable. Make room there; earlier state is intact.",
    ),
    "TS614": Kind(
        "Local cloud of another account",
        "The running local cloud emulates another account, or a command uses an option that it does not "
        "have. Restart it for the account of the environment.",
    ),
    "TS615": Kind(
        "Python package not installed",
        "The command needs a package that is not installed. Run the command in the message.",
    ),
    "TS616": Kind(
        "Cannot write to the disk",
        "The disk is full, the folder is not writable, or a file is in its place. Check the path, its "
        "permissions, and free space.",
    ),
    "TS618": Kind(
        "git or GitHub's command line failed",
        "A step of the delivery workflows called git or `gh`. The message has their output; check the "
        "permissions of the job and its token.",
    ),
    "TS625": Kind(
        "Unknown model name",
        "The deployment of a multi-model endpoint has published no model of that name. The help lists the "
        "known names.",
    ),
    "TS626": Kind(
        "Model names cannot be read",
        "The client found no model names under the given path or in the given file, or may not read them. "
        "`tritonstack targets` prints the path of an endpoint.",
    ),
    "TS627": Kind(
        "Target model not found",
        "The prefix of a multi-model endpoint has no archive of the requested TargetModel. `tritonstack "
        "targets` lists the models of an endpoint.",
    ),
}
