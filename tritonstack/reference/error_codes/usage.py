"""TS9xx: use of the command line."""

from __future__ import annotations

from collections.abc import Mapping

from tritonstack.reference.error_codes.kinds import Kind

USAGE: Mapping[str, Kind] = {
    "TS901": Kind(
        "Invalid command line",
        "The command, an option, or an argument does not exist, is missing, or has an invalid value, "
        "two options exclude each other, or a command that deletes or overrides needs a confirmation. "
        "`--help` after the command lists what it accepts.",
    ),
    "TS902": Kind(
        "No project found",
        "Neither the working directory nor a parent folder is a tritonstack project. Change to the "
        "project, use `--project`, or create one with `tritonstack init DIR`.",
    ),
    "TS903": Kind(
        "Unknown name",
        "There is no environment, template, model, endpoint, gate, or other item of the given name. The "
        "help suggests a similar name or lists the known ones.",
    ),
    "TS906": Kind(
        "Interrupted",
        "The command was stopped by Ctrl-C or a signal. The help says what continues in AWS and how to "
        "resume.",
    ),
    "TS908": Kind(
        "Command does not apply",
        "The command cannot be used with this endpoint, environment, pipeline, or repository, for "
        "example `targets` with an endpoint of one model, or the form of a file prevents its edit. The "
        "help names what to do instead.",
    ),
    "TS909": Kind(
        "Already exists",
        "`tritonstack init` writes only into a new or empty folder, and `tritonstack new` replaces no "
        "model, endpoint, or environment. Choose another name, or edit the existing file.",
    ),
    "TS912": Kind(
        "Input does not fit the model",
        "An input of `invoke` has an unknown name, another type or shape than the model's, or is "
        "missing; or its file does not exist, is damaged, or has another format. `tritonstack inspect "
        "MODEL` shows the model's tensors. Nothing was sent.",
    ),
    "TS914": Kind(
        "No usable measurements",
        "A trace, a period of captured requests, or a saved result of `bench` does not exist, is "
        "damaged, or is empty; the endpoint answered no request; or nothing tells `simulate` how fast "
        "one instance answers. The message says which, and the help what to measure.",
    ),
    "TS916": Kind(
        "Search found no setting",
        "`tritonstack tune` finds no setting to search on this machine or another search runs in the "
        "project, or no scaling meets the objective of `simulate`. The message has the reason. No file "
        "has changed.",
    ),
    "TS999": Kind(
        "Internal error",
        "An unexpected exception: a defect of tritonstack. Rerun with `--debug`, and report the traceback.",
    ),
}
