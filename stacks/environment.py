"""Create the stacks of one environment: foundation, builds, network, one per endpoint, and monitoring."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.build import BuildStack
from stacks.endpoint import EndpointStack
from stacks.environment_stack import EnvironmentStack
from stacks.foundation import FoundationStack
from stacks.monitoring import MonitoringStack
from stacks.network import NetworkStack
from tritonstack.files.checks.regions import region_warnings
from tritonstack.files.project.workspace import Workspace


def add_environment(scope: Construct, *, workspace: Workspace) -> None:
    """Add the stacks of an environment to an app, in deployment order."""
    foundation = _add_foundations(scope, workspace)
    for name in sorted(workspace.spec.endpoints):
        # Stacks have no exports, so explicit dependencies keep the order in `cdk deploy --all`.
        EndpointStack(scope, workspace=workspace, name=name).add_stack_dependency(foundation)
    # It refers to endpoints by name only, so it has no dependencies.
    MonitoringStack(scope, environment=workspace.spec)


def _add_foundations(scope: Construct, workspace: Workspace) -> EnvironmentStack:
    """Create the stacks that endpoints depend on; return the last one."""
    environment = workspace.spec
    foundation = FoundationStack(scope, environment=environment, instance=workspace.instance)
    for warning in region_warnings(workspace.environment):
        cdk.Annotations.of(foundation).add_warning_v2(f"tritonstack:region:{warning.field}", str(warning))
    if environment.builds_in_account:
        # No endpoint depends on it: it builds artifacts, which are stored in the foundation's bucket.
        BuildStack(scope, workspace=workspace).add_stack_dependency(foundation)
    if environment.network is None or environment.network.create is None:
        return foundation
    network = NetworkStack(scope, environment=environment, vpc=environment.network.create)
    network.add_stack_dependency(foundation)
    return network
