"""One look at an environment: a dashboard over all of its endpoints."""

from __future__ import annotations

from constructs import Construct

from stacks.environment_stack import EnvironmentStack
from tritonstack.base import naming
from tritonstack.constructs.monitoring.alarm_plan import endpoint_alarms
from tritonstack.constructs.monitoring.environment_dashboard import EnvironmentDashboard, Overseen
from tritonstack.constructs.monitoring.monitored import watched_endpoint
from tritonstack.spec.environments.environment import EnvironmentSpec


class MonitoringStack(EnvironmentStack):
    """Deployed last. It knows every endpoint by name alone, so it does not care which are deployed."""

    def __init__(self, scope: Construct, *, environment: EnvironmentSpec) -> None:
        super().__init__(
            scope,
            stack_name=naming.monitoring_stack_name(environment.base),
            description=f"tritonstack: the dashboard over the endpoints of {environment.name}",
            environment=environment,
        )
        endpoints = [_overseen(environment, name) for name in sorted(environment.endpoints)]
        dashboard = EnvironmentDashboard(self, "Overview", base=environment.base, endpoints=endpoints)
        self.output("Dashboard", value=", ".join(dashboard.names), description="In CloudWatch")


def _overseen(environment: EnvironmentSpec, name: str) -> Overseen:
    watched = watched_endpoint(environment, name)
    alarms = endpoint_alarms(watched, environment.endpoints[name].alarms)
    return Overseen(name, watched, [alarm.plan.name for alarm in alarms])
