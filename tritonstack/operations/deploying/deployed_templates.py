"""Read the templates of deployed stacks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tritonstack.operations.aws import Cloud
from tritonstack.operations.deploying.assembly import Assembly, Template
from tritonstack.operations.deploying.stored_templates import as_written
from tritonstack.operations.stacks import StackState

_TEMPLATES_AT_ONCE = 4


def deployed_templates(
    cloud: Cloud, stacks: Iterable[StackState], *, assembly: Assembly | None = None
) -> dict[str, Template]:
    """Return the templates of existing stacks by name, restored to their original text with `assembly`.

    Without `assembly`, they are as CloudFormation stores them.
    """
    client = cloud.client("cloudformation")

    def fetch(name: str) -> Template:
        body: Any = client.get_template(StackName=name, TemplateStage="Original")["TemplateBody"]
        stored: Template = json.loads(body) if isinstance(body, str) else body
        if assembly is None or name not in assembly.stacks:
            return stored
        written: Template = as_written(stored, assembly.template(name))
        return written

    names = [stack.name for stack in stacks if stack.was_created]
    with ThreadPoolExecutor(_TEMPLATES_AT_ONCE) as pool:
        return dict(zip(names, pool.map(fetch, names), strict=True))
