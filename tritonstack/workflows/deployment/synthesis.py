"""Synthesize the checked-out files into templates."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tritonstack.operations.aws import Cloud
from tritonstack.operations.deploying.assembly import Assembly
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
def synthesized(session: Session, cdk: CdkCli) -> Iterator[Assembly]:
    """Synthesize the stacks of an environment into a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="tritonstack-") as folder:
        with session.reporter.step("synthesising the stacks") as step:
            cdk.run("synth", "--quiet", "--output", folder, on_line=step.update)
        yield Assembly(Path(folder))
