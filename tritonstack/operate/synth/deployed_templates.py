"""Read the templates of deployed stacks.

CloudFormation stores them with `?` for every non-ASCII character; the resources have the original text. A
change of only such characters is not detected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tritonstack.operate.shared.aws import Cloud, in_parallel
from tritonstack.operate.shared.stacks import StackState, stored_template
from tritonstack.operate.synth.assembly import Assembly, Template

_TEMPLATES_AT_ONCE = 4
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def deployed_templates(
    cloud: Cloud, stacks: Iterable[StackState], *, assembly: Assembly | None = None
) -> dict[str, Template]:
    """Return the templates of existing stacks by name, restored to their original text with `assembly`.

    Without `assembly`, they are as CloudFormation stores them.
    """

    def fetch(name: str) -> Template | None:
        stored = stored_template(cloud, name, stage="Original")
        if stored is None or assembly is None or name not in assembly.stacks:
            return stored
        written: Template = as_written(stored, assembly.template(name))
        return written

    names = [stack.name for stack in stacks if stack.was_created]
    templates = zip(names, in_parallel(fetch, names, at_once=_TEMPLATES_AT_ONCE), strict=True)
    return {name: template for name, template in templates if template is not None}


def as_stored(text: str) -> str:
    """Return the text as CloudFormation returns it."""
    return _BEYOND_ASCII.sub("?", text)


def as_written(stored: Any, expected: Any) -> Any:
    """Restore the original text of a stored template or part.

    `expected` is the new value in its place, if any.
    """
    if isinstance(stored, Mapping) and isinstance(expected, Mapping):
        return {name: as_written(value, expected.get(name)) for name, value in stored.items()}
    if isinstance(stored, list) and isinstance(expected, list):
        beside = [*expected, *[None] * (len(stored) - len(expected))]
        return [as_written(value, other) for value, other in zip(stored, beside, strict=False)]
    if isinstance(stored, str) and isinstance(expected, str) and stored == as_stored(expected):
        return expected
    return stored
