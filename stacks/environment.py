"""One environment as stacks: foundation, builds, network, one stack an endpoint, and a look over them."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.build import BuildStack
from stacks.endpoint import EndpointStack
from stacks.environment_stack import EnvironmentStack
from stacks.foundation import FoundationStack
from stacks.monitoring import MonitoringStack
from stacks.network import NetworkStack
from tritonstack.project.checks.regions import region_warnings
from tritonstack.project.workspace import Workspace


def add_environment(scope: Construct, *, workspace: Workspace) -> None:
    """Put the stacks of an environment into an app, in the order in which they are deployed."""
    ground = _add_ground(scope, workspace)
    for name in sorted(workspace.spec.endpoints):
        # No export ties the stacks, so this is what makes `cdk deploy --all` keep the order.
        EndpointStack(scope, workspace=workspace, name=name).add_stack_dependency(ground)
    # It names what it shows, so it waits for nothing.
    MonitoringStack(scope, environment=workspace.spec)


def _add_ground(scope: Construct, workspace: Workspace) -> EnvironmentStack:
    """What endpoints stand on; gives the last stack of it."""
    environment = workspace.spec
    foundation = FoundationStack(scope, environment=environment, instance=workspace.instance)
    for warning in region_warnings(workspace.environment):
        cdk.Annotations.of(foundation).add_warning_v2(f"tritonstack:region:{warning.field}", str(warning))
    if environment.builds_in_account:
        # No endpoint stands on it: it makes the artifacts, and they lie in the foundation's bucket.
        BuildStack(scope, workspace=workspace).add_stack_dependency(foundation)
    if environment.network is None or environment.network.create is None:
        return foundation
    network = NetworkStack(scope, environment=environment, vpc=environment.network.create)
    network.add_stack_dependency(foundation)
    return network
