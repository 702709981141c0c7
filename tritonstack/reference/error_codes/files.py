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
        "A YAML file is missing, empty, too large, not a regular file, not readable, or not UTF-8, or a "
        "model's file is not readable. Check the path and the permissions, and save YAML as UTF-8 text.",
    ),
    "TS102": Kind(
        "Invalid YAML syntax",
        "The text is not valid YAML. The reported line is where the parser stopped; the mistake is often "
        "on the line before it. Check indentation, quotes, brackets, and the space after each colon.",
    ),
    "TS103": Kind(
        "YAML feature or limit not supported",
        "The file uses a part of YAML that tritonstack rejects (tags, keys that are not text, several "
        "documents, aliases without an anchor), or it exceeds a limit on nesting, aliases, or numbers. "
        "Write out the value in plain YAML.",
    ),
    "TS104": Kind(
        "Unknown key",
        "A mapping has a key that does not exist here. Correct the spelling, or move the key to "
        "the section that it belongs to. Some keys exist only for certain values of `kind`.",
    ),
    "TS105": Kind(
        "Duplicate key",
        "A mapping has the same key twice. YAML parsers would silently use one of them, so this is an "
        "error. Keep one.",
    ),
    "TS106": Kind(
        "Required key is missing",
        "A required key is missing, or a recipe needs a key that others do not. Add it.",
    ),
    "TS107": Kind(
        "Key has no value",
        "A key has no value, so its default would apply. Give a value, "
        "write `{}` for the defaults of a section, or remove the key.",
    ),
    "TS108": Kind(
        "Wrong type of value",
        "The value has another type than expected, for example a number instead of text. Quote text that "
        "looks like a number, and do not quote numbers.",
    ),
    "TS109": Kind(
        "Value not allowed",
        "The key accepts only the listed values, and the value is not one of them. Choose one of the list.",
    ),
    "TS110": Kind(
        "Number out of range",
        "The number is below the minimum or above the maximum of this key, or above a limit that another "
        "key sets, such as `batching.max_batch`.",
    ),
    "TS111": Kind(
        "Invalid value",
        "The value has the right type but not the required form, or it contradicts the values next to it. "
        "The message names the rule.",
    ),
    "TS112": Kind(
        "Too few or too many items",
        "A list or mapping has fewer or more items than allowed, or a text is too long. Limits of AWS are "
        "named in the message.",
    ),
    "TS113": Kind(
        "Duplicate item",
        "A list names the same item twice. Keep one of the two.",
    ),
    "TS114": Kind(
        "Options exclude each other",
        "Two options of the same file cannot be used together. Triton or SageMaker supports either of "
        "them but not both. Remove one.",
    ),
    "TS115": Kind(
        "Option not available here",
        "The option exists, but not for this recipe, format, or kind of endpoint, or it has no effect "
        "there. Remove it.",
    ),
    "TS116": Kind(
        "Option needs another Triton release",
        "The Triton release of the environment does not support the option. Choose a release that does, "
        "or remove the option.",
    ),
    "TS117": Kind(
        "Precision not supported",
        "The precision is not available with this format or on this hardware. The message names one that is.",
    ),
    "TS118": Kind(
        "Unsafe file or link",
        "A file of the model is outside the model's folder, is a link to such a place, or is not a "
        "regular file. Builds read only files that the repository holds. Copy the file into the folder.",
    ),
    "TS119": Kind(
        "Instance type has no suitable GPU",
        "The option needs a GPU, or GPUs of another number or kind, and the instance type does not have "
        "them. Choose another instance type, or remove the option.",
    ),
    "TS120": Kind(
        "Instance type too small",
        "Copies of an inference component, or an artifact, need more vCPUs, memory, disk, or instances "
        "than the endpoint has. Lower the demand, or choose a larger instance type.",
    ),
    "TS121": Kind(
        "Scaling not possible",
        "The endpoint cannot scale in this way: the metric does not exist for its mode, the minimum is "
        "not allowed, or SageMaker does not scale this instance type.",
    ),
    "TS122": Kind(
        "Rollout not possible",
        "SageMaker does not support this rollout for this endpoint: the strategy, the size of its steps, "
        "its duration, or its alarms do not fit.",
    ),
    "TS123": Kind(
        "Environment variable not allowed",
        "A variable of the container is invalid, is set by tritonstack itself, or is ignored by the "
        "image. Remove it, or use the option in the message.",
    ),
    "TS124": Kind(
        "Invalid environment template",
        "A template has an invalid or unknown parameter, a parameter in a field that must be fixed, or a "
        "field that each instance sets.",
    ),
}
