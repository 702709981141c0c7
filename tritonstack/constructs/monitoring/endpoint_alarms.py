"""What wakes somebody up: slow answers, failing answers, missing callers, full GPUs, Triton's own errors.

The alarms bear names of their own choosing, so that the endpoint can name them for its rollbacks while
they name the endpoint they watch.
"""

from __future__ import annotations

from collections.abc import Iterable

from constructs import Construct

from tritonstack.constructs.monitoring.alarm_plan import endpoint_alarms
from tritonstack.constructs.monitoring.monitored import Watched
from tritonstack.constructs.monitoring.planned_alarm import add_alarm
from tritonstack.spec.endpoints.endpoint import Alarms
from tritonstack.spec.endpoints.rollouts import AlarmId


class EndpointAlarms(Construct):
    """The alarms of one endpoint; each tells a topic when it rings and when it is over."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        watched: Watched,
        alarms: Alarms,
        topic_arn: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._alarms = endpoint_alarms(watched, alarms)
        topic = [topic_arn] if topic_arn else []
        for alarm in self._alarms:
            local_name = alarm.plan.name.removeprefix(f"{watched.endpoint_name}-")
            add_alarm(self, local_name, plan=alarm.plan, alarm_actions=topic, ok_actions=topic)

    @property
    def all_names(self) -> list[str]:
        """The names of all of them."""
        return [alarm.plan.name for alarm in self._alarms]

    @property
    def ids(self) -> set[AlarmId]:
        """The kinds of alarms that there are."""
        return {alarm.id for alarm in self._alarms}

    def names(self, ids: Iterable[AlarmId]) -> list[str]:
        """The names of the alarms of these kinds, one a production variant; those left out have none."""
        return [alarm.plan.name for wanted in ids for alarm in self._alarms if alarm.id == wanted]
