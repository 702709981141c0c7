"""TS1xx: the content of one file."""

from __future__ import annotations

from collections.abc import Mapping

from tritonstack.reference.error_codes.kinds import Kind

FILES: Mapping[str, Kind] = {
    "TS100": Kind(
        "Invalid files",
        "One or more project files are invalid. Each listed problem has a code of its own at the end of "
        "its message; this code appears only in JSON output and in the reports of builds.",
    ),
    "TS101": Kind(
        "File cannot be read",
        "A file is missing, empty, too large, not a regular file, not readable, or, for YAML, not "
        "UTF-8. Or it is outside the model's folder, or a link to such a place: builds read only files "
        "that the repository holds. Check the path and the permissions, or copy the file into the "
        "folder.",
    ),
    "TS102": Kind(
        "Invalid YAML",
        "The text is not valid YAML, has a key twice, or uses a part of YAML that tritonstack rejects, "
        "such as tags and several documents. The parser often stops one line after the mistake. Check "
        "indentation, quotes, brackets, and the space after each colon.",
    ),
    "TS104": Kind(
        "Unknown key",
        "A mapping has a key that does not exist here. Correct the spelling, or move the key to the "
        "section that it belongs to. Some keys exist only for certain values of `kind`.",
    ),
    "TS106": Kind(
        "Required key is missing",
        "A required key is missing or has no value, or a recipe needs a key that others do not. Add the "
        "key with a value, or write `{}` for the defaults of a section.",
    ),
    "TS111": Kind(
        "Invalid value",
        "The value has another type or form than expected, is not in the list of allowed values, or is "
        "out of range; or a list has too few, too many, or duplicate items. The message names the rule. "
        "Quote text that looks like a number, and do not quote numbers.",
    ),
    "TS114": Kind(
        "Option not available here",
        "The option excludes another one of the same file, or does not exist for this recipe, format, "
        "precision, kind of endpoint, or Triton release; or tritonstack sets the variable itself. "
        "Remove the option, or choose what the message names.",
    ),
    "TS119": Kind(
        "Instance type does not fit",
        "The endpoint or its model needs a GPU, another number or kind of GPUs, or more vCPUs, memory, "
        "disk, or instances than the instance type has; or the Triton release does not support its GPU "
        "or driver. Choose another instance type, or remove the option.",
    ),
    "TS121": Kind(
        "Scaling or rollout not possible",
        "SageMaker cannot scale or update the endpoint in this way: the metric, the minimum, the "
        "strategy, the size of its steps, its duration, or its alarms do not fit.",
    ),
    "TS124": Kind(
        "Invalid environment template",
        "A template has an invalid or unknown parameter, a parameter in a field that must be fixed, or "
        "a field that each instance sets.",
    ),
}
