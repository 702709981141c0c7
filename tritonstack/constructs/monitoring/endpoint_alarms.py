"""Create an endpoint's alarms: latency, errors, missing traffic, GPU memory, and errors in Triton's log.

The alarms have explicit names, so the endpoint can refer to them for rollbacks while they refer to the
endpoint.
"""

from __future__ import annotations

from collections.abc import Iterable

from constructs import Construct

from tritonstack.constructs.monitoring.alarm_plan import endpoint_alarms
from tritonstack.constructs.monitoring.monitored import Monitored
from tritonstack.constructs.monitoring.planned_alarm import add_alarm
from tritonstack.spec.endpoints.endpoint import Alarms
from tritonstack.spec.endpoints.rollouts import AlarmId


class EndpointAlarms(Construct):
    """Create the alarms of one endpoint; each notifies a topic when it triggers and when it recovers."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        monitored: Monitored,
        alarms: Alarms,
        topic_arn: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._alarms = endpoint_alarms(monitored, alarms)
        topic = [topic_arn] if topic_arn else []
        for alarm in self._alarms:
            local_name = alarm.plan.name.removeprefix(f"{monitored.endpoint_name}-")
            add_alarm(self, local_name, plan=alarm.plan, alarm_actions=topic, ok_actions=topic)

    @property
    def all_names(self) -> list[str]:
        """Return the names of all alarms."""
        return [alarm.plan.name for alarm in self._alarms]

    @property
    def ids(self) -> set[AlarmId]:
        """Return the kinds of alarms that exist."""
        return {alarm.id for alarm in self._alarms}

    def names(self, ids: Iterable[AlarmId]) -> list[str]:
        """Return the alarm names of these kinds, one per production variant; missing kinds are skipped."""
        return [alarm.plan.name for alarm_id in ids for alarm in self._alarms if alarm.id == alarm_id]
