"""TS9xx: use of the command line."""

from __future__ import annotations

from collections.abc import Mapping

from tritonstack.reference.error_codes.kinds import Kind

USAGE: Mapping[str, Kind] = {
    "TS901": Kind(
        "Invalid command line",
        "The command, an option, or an argument does not exist, or an argument is missing. `--help` after "
        "the command lists what it accepts.",
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
    "TS904": Kind(
        "Options do not fit together",
        "An option is missing next to another one, or two options exclude each other, such as `--name` "
        "without a template.",
    ),
    "TS905": Kind(
        "Confirmation missing",
        "The command deletes resources or skips a gate, and needs a confirmation or a reason.",
    ),
    "TS906": Kind(
        "Interrupted",
        "The command was stopped by Ctrl-C or a signal. The help says what continues in AWS and how to "
        "resume.",
    ),
    "TS907": Kind(
        "Invalid value of an option",
        "The value of an option has the wrong form, such as a duration, an account id, or a parameter.",
    ),
    "TS908": Kind(
        "Command does not apply",
        "The command cannot be used with this endpoint, environment, or pipeline, for example `targets` "
        "with an endpoint of one model, or the form of a file prevents its edit. The help names what to do "
        "instead.",
    ),
    "TS909": Kind(
        "Target folder is not empty",
        "`tritonstack init` writes only into a new or empty folder.",
    ),
    "TS910": Kind(
        "Version not pinned",
        "`tritonstack upgrade` changes the line of requirements.txt that pins tritonstack to one version, "
        "such as `tritonstack[cdk,cli]==0.1.0`. The repository has no such line.",
    ),
    "TS911": Kind(
        "Name is already used",
        "`tritonstack new` replaces no model, endpoint, or environment. Choose another name, or edit the "
        "existing file.",
    ),
    "TS912": Kind(
        "Input does not fit the model",
        "An input of `invoke` has an unknown name, another type or shape than the model's, or is missing. "
        "`tritonstack inspect MODEL` shows the model's tensors. Nothing was sent.",
    ),
    "TS913": Kind(
        "Input file cannot be read",
        "A file for `invoke` does not exist, is damaged, or has a format that cannot become the input. "
        "Nothing was sent.",
    ),
    "TS914": Kind(
        "Load cannot be read",
        "A trace, a period of captured requests, or a saved result of `bench` does not exist, is damaged, or "
        "is empty. Nothing was sent.",
    ),
    "TS915": Kind(
        "No answers to measure",
        "The endpoint answered no request of a load test; the message counts the errors by class. Check the "
        "endpoint with `tritonstack invoke`, or send less.",
    ),
    "TS916": Kind(
        "Model cannot be tuned",
        "`tritonstack tune` finds no setting to search on this machine, or the model answers nothing "
        "with its present settings, or a precision could not be built. The message has the reason. No file "
        "has changed.",
    ),
    "TS917": Kind(
        "No service curve",
        "Nothing tells `simulate` how fast one instance answers: the manifest has no latencies or is not "
        "published, or no level of a saved load test was steady and without errors.",
    ),
    "TS918": Kind(
        "No policy holds the objective",
        "`simulate --objective` found no scaling that meets the objective under the given load. Relax it, or "
        "choose a faster instance type.",
    ),
    "TS919": Kind(
        "Another search is running",
        "One `tritonstack tune` at a time runs in a project, because two would measure each other's load. "
        "Wait until the other one ends, or stop it.",
    ),
    "TS999": Kind(
        "Internal error",
        "An unexpected exception: a defect of tritonstack. Rerun with `--debug`, and report the traceback.",
    ),
}
