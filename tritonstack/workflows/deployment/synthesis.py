"""Synthesize the checked-out files into templates."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tritonstack.operations.aws import Cloud
from tritonstack.operations.deploying.assembly import Assembly
from tritonstack.operations.deploying.assembly_cache import AssemblyCache, synthesis_key
from tritonstack.operations.deploying.cdk import CdkCli, find_cdk
from tritonstack.project.workspace import Workspace
from tritonstack.workflows.session import Session


def cdk_of(workspace: Workspace, cloud: Cloud) -> CdkCli:
    """Return the CDK command line for an environment."""
    return find_cdk(
        workspace.project.root,
        environment_name=workspace.spec.name,
        context=workspace.context,
        variables=cloud.process_environment(),
    )


@contextmanager
def synthesized(
    session: Session, workspace: Workspace, cdk: CdkCli, stack: str | None = None
) -> Iterator[Assembly]:
    """Synthesize the stacks of an environment into a temporary folder, or copy them if nothing changed.

    With `stack`, errors of other stacks, such as those whose artifacts are not built, do not matter.
    """
    selected = [stack] if stack else []
    cache, key = AssemblyCache(workspace.project), synthesis_key(workspace, cdk, selected)
    with tempfile.TemporaryDirectory(prefix="tritonstack-") as name:
        folder = Path(name)
        with session.reporter.step(f"synthesizing {stack or 'the stacks'}") as step:
            assembly = cache.find(key, folder) if key else None
            step.detail = "unchanged since the last time" if assembly else ""
            if assembly is None:
                cdk.run("synth", *selected, "--quiet", "--output", name, on_line=step.update)
                assembly = Assembly(folder)
                if key and synthesis_key(workspace, cdk, selected) == key:
                    cache.keep(key, assembly)
        yield assembly
