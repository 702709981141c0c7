"""Read the templates of deployed stacks."""

from __future__ import annotations

from collections.abc import Iterable

from tritonstack.operations.aws import Cloud, in_parallel
from tritonstack.operations.deploying.assembly import Assembly, Template
from tritonstack.operations.deploying.stored_templates import as_written
from tritonstack.operations.stacks import StackState, stored_template

_TEMPLATES_AT_ONCE = 4


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
