"""Create an endpoint's alarms: latency, errors, missing traffic, GPU memory, and errors in Triton's log.

The alarms have explicit names, so the endpoint can refer to them for rollbacks while they refer to the
endpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from constructs import Construct

from tritonstack.constructs.monitoring.alarm_plan import endpoint_alarms
from tritonstack.constructs.monitoring.monitored import Monitored
from tritonstack.constructs.monitoring.planned_alarm import add_alarm
from tritonstack.constructs.monitoring.release_alarms import release_alarms
from tritonstack.files.endpoint.endpoint import Alarms
from tritonstack.files.endpoint.rollouts import AlarmId


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
        compared: Collection[AlarmId] = (),
    ) -> None:
        """`compared`: kinds whose rollback alarm compares the new instances with the old ones."""
        super().__init__(scope, construct_id)
        self._alarms = endpoint_alarms(monitored, alarms)
        self._release_alarms = tuple(release_alarms(monitored, alarms, compared))
        topic = [topic_arn] if topic_arn else []
        for alarm in (*self._alarms, *self._release_alarms):
            local_name = alarm.name.removeprefix(f"{monitored.endpoint_name}-")
            # People get one message: an alarm for rollbacks only tells SageMaker.
            actions = topic if alarm in self._alarms else []
            add_alarm(self, local_name, plan=alarm, alarm_actions=actions, ok_actions=actions)

    @property
    def all_names(self) -> list[str]:
        """Return the names of all alarms that notify people."""
        return [alarm.name for alarm in self._alarms]

    @property
    def ids(self) -> set[str]:
        """Return the kinds of alarms that exist."""
        return {alarm.id for alarm in self._alarms}

    def rollback_names(self, ids: Iterable[AlarmId]) -> list[str]:
        """Return the rollback alarms of these kinds, one per production variant, without missing kinds."""
        compared = {alarm.id for alarm in self._release_alarms}
        return [
            alarm.name
            for alarm_id in ids
            for alarm in (self._release_alarms if alarm_id in compared else self._alarms)
            if alarm.id == alarm_id
        ]
