"""The WSGI application of Application Auto Scaling's API."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack_local.autoscaling.decisions import AlarmReading
from tritonstack_local.autoscaling.history import History
from tritonstack_local.autoscaling.policies import Policies
from tritonstack_local.autoscaling.records import AutoScalingTables
from tritonstack_local.autoscaling.scaler import ScaledEndpoints, Scaler
from tritonstack_local.autoscaling.scheduled import ScheduledActions
from tritonstack_local.autoscaling.targets import ScalableTargets
from tritonstack_local.autoscaling.tracking_alarms import DESCRIPTION, PREFIX, TrackingAlarms
from tritonstack_local.cloudwatch.alarms.records import AlarmRecord, held_alarms
from tritonstack_local.cloudwatch.alarms.state import decide as decide_state
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.tables import Tables
from tritonstack_local.service.wire import Action, ControlPlane
from tritonstack_local.settings import TimeScale
from tritonstack_local.tagging.resources import TaggedResource

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

SERVICE = "application-autoscaling"

log = logging.getLogger(__name__)


class AutoScalingApp:
    """Serves the API and scales endpoints. Thread-safe."""

    def __init__(
        self, *, region: str, clients: Clients, endpoints: ScaledEndpoints, time_scale: TimeScale
    ) -> None:
        """`region` is the default of callers without one."""
        self._time_scale = time_scale
        self._store = AutoScalingTables()
        self._alarms = TrackingAlarms(clients=clients)
        history, targets = History(store=self._store), ScalableTargets(store=self._store, alarms=self._alarms)
        self._scaler = Scaler(
            store=self._store,
            history=history,
            endpoints=endpoints,
            read_alarm=self._read_alarm,
            remove_target=targets.remove,
            time_scale=time_scale,
        )
        parts = _Parts(
            targets,
            Policies(store=self._store, alarms=self._alarms),
            ScheduledActions(store=self._store),
            history,
        )
        actions = {name: action(parts) for name, action in _ACTIONS.items()}
        self._control_plane = ControlPlane(service=SERVICE, region=region, actions=actions)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return self._control_plane(environ, start_response)

    @property
    def tables(self) -> Tables:
        """Its persistent tables; restored before `resume` after a restart."""
        store = self._store
        return {
            "targets": store.targets,
            "policies": store.policies,
            "scheduled": store.scheduled,
            "activities": store.activities,
            "tags": store.tags,
        }

    def inventory(self) -> list[dict[str, str]]:
        """List the resources of all accounts and regions. Activities are not resources."""
        targets = [
            *(("scalable-target", scope, record.name) for scope, record in self._store.targets.everywhere()),
            *(("scaling-policy", scope, record.name) for scope, record in self._store.policies.everywhere()),
            *(
                ("scheduled-action", scope, record.name)
                for scope, record in self._store.scheduled.everywhere()
            ),
        ]
        return [
            {"service": SERVICE, "type": kind, "id": name, "account": scope.account, "region": scope.region}
            for kind, scope, name in targets
        ]

    def tagged(self, scope: Scope) -> Iterator[TaggedResource]:
        """List the targets of a scope with their tags."""
        for record in self._store.targets.within(scope):
            tags = {tag["Key"]: tag["Value"] for tag in self._store.tags.of(record.arn)}
            yield TaggedResource(record.arn, f"{SERVICE}:scalable-target", tags)

    def alarmed(self, alarm: AlarmRecord, action: str) -> str | None:
        """Note that an alarm triggers a policy; return why it does not."""
        return self._scaler.alarmed(alarm, action)

    def resume(self) -> None:
        """Repair the alarms of an interrupted request, and begin to scale."""
        try:
            self._repair_alarms()
        except (ServiceError, ClientError, BotoCoreError) as error:
            log.warning("cannot repair the alarms of scaling policies: %s", error)
        self._scaler.resume()
        self._scaler.start()

    def close(self) -> None:
        """Stop scaling."""
        self._scaler.close()

    def _repair_alarms(self) -> None:
        """Create missing alarms of policies, and delete those of no policy."""
        alarms = held_alarms()
        own = {(scope, name) for scope, policy in self._store.policies.everywhere() for name in policy.alarms}
        for scope, policy in self._store.policies.everywhere():
            if any((scope, name) not in alarms for name in policy.alarms):
                self._alarms.put(scope, policy)
        for (scope, name), alarm in alarms.items():
            about = str(alarm.given.get("AlarmDescription", ""))
            if name.startswith(PREFIX) and about.startswith(DESCRIPTION) and (scope, name) not in own:
                self._alarms.delete(scope, [name])

    def _read_alarm(self, scope: Scope, name: str) -> AlarmReading | None:
        alarm = held_alarms().get((scope, name))
        if alarm is None:
            return None
        spec = alarm.spec
        windows = spec.observe(scope, spec.span(time.time(), self._time_scale))
        decision = decide_state(windows, spec.condition)
        evaluated = () if decision is None else decision.evaluated
        return AlarmReading(
            name=name,
            state=alarm.state,
            values=tuple(window.value for window in evaluated if window.value is not None),
            threshold=spec.condition.threshold,
            rises=spec.condition.comparison.startswith("Greater"),
        )


class _Parts:
    def __init__(
        self, targets: ScalableTargets, policies: Policies, scheduled: ScheduledActions, history: History
    ) -> None:
        self.targets = targets
        self.policies = policies
        self.scheduled = scheduled
        self.history = history


_ACTIONS: Mapping[str, Callable[[_Parts], Action]] = {
    "RegisterScalableTarget": lambda parts: parts.targets.register,
    "DescribeScalableTargets": lambda parts: parts.targets.describe,
    "DeregisterScalableTarget": lambda parts: parts.targets.deregister,
    "TagResource": lambda parts: parts.targets.tag,
    "UntagResource": lambda parts: parts.targets.untag,
    "ListTagsForResource": lambda parts: parts.targets.list_tags,
    "PutScalingPolicy": lambda parts: parts.policies.put,
    "DescribeScalingPolicies": lambda parts: parts.policies.describe,
    "DeleteScalingPolicy": lambda parts: parts.policies.delete,
    "PutScheduledAction": lambda parts: parts.scheduled.put,
    "DescribeScheduledActions": lambda parts: parts.scheduled.describe,
    "DeleteScheduledAction": lambda parts: parts.scheduled.delete,
    "DescribeScalingActivities": lambda parts: parts.history.describe,
}
OFFERED = tuple(_ACTIONS)
"""The actions of the API."""
