"""One environment as stacks: the foundation, and one stack an endpoint."""

from __future__ import annotations

from constructs import Construct

from catalog.workspace import Workspace
from stacks.endpoint import EndpointStack
from stacks.foundation import FoundationStack


def add_environment(scope: Construct, *, workspace: Workspace) -> None:
    """Put the stacks of an environment into an app."""
    foundation = FoundationStack(scope, environment=workspace.spec)
    for name in sorted(workspace.spec.endpoints):
        # No export ties the two, so this is what makes `cdk deploy --all` keep the order.
        EndpointStack(scope, workspace=workspace, name=name).add_stack_dependency(foundation)
