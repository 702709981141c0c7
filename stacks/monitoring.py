"""Create the monitoring stack: one dashboard for all endpoints of an environment."""

from __future__ import annotations

from constructs import Construct

from stacks.environment_stack import EnvironmentStack
from tritonstack.base import naming
from tritonstack.constructs.monitoring.alarm_plan import endpoint_alarms
from tritonstack.constructs.monitoring.environment_dashboard import DashboardEndpoint, environment_dashboard
from tritonstack.constructs.monitoring.monitored import monitored_endpoint
from tritonstack.files.environment.environment import EnvironmentSpec


class MonitoringStack(EnvironmentStack):
    """The monitoring stack; it refers to endpoints by name only, deployed or not."""

    def __init__(self, scope: Construct, *, environment: EnvironmentSpec) -> None:
        super().__init__(
            scope,
            stack_name=naming.monitoring_stack_name(environment.base),
            description=f"tritonstack: dashboard of the endpoints of {environment.name}",
            environment=environment,
        )
        endpoints = [_dashboard_endpoint(environment, name) for name in sorted(environment.endpoints)]
        names = environment_dashboard(self, "Overview", base=environment.base, endpoints=endpoints)
        self.output("Dashboard", value=", ".join(names), description="Name of the CloudWatch dashboard")


def _dashboard_endpoint(environment: EnvironmentSpec, name: str) -> DashboardEndpoint:
    monitored = monitored_endpoint(environment, name)
    alarms = endpoint_alarms(monitored, environment.endpoints[name].alarms)
    return DashboardEndpoint(name, monitored, [alarm.name for alarm in alarms])
