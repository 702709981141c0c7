"""The WSGI application of Application Auto Scaling's API."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from botocore import xform_name

from tritonstack_local.autoscaling.actions import OFFERED, SERVICE, ScalingActions
from tritonstack_local.autoscaling.alarms import TrackingAlarms
from tritonstack_local.autoscaling.decisions import AlarmReading
from tritonstack_local.autoscaling.records import AutoScalingTables
from tritonstack_local.autoscaling.scaler import History, Scaler
from tritonstack_local.cloudwatch.alarm_rules import decide as decide_state
from tritonstack_local.cloudwatch.moto_alarms import AlarmRecord, find_alarm
from tritonstack_local.sagemaker.endpoints import Endpoints
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.tables import Tables
from tritonstack_local.service.wire import ControlPlane
from tritonstack_local.settings import TimeScale
from tritonstack_local.tagging import TaggedResource

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


class AutoScalingApp:
    """Serves the API and scales endpoints. Thread-safe."""

    def __init__(self, *, clients: Clients, endpoints: Endpoints, time_scale: TimeScale) -> None:
        self._time_scale = time_scale
        self._store = AutoScalingTables()
        history = History(store=self._store)
        actions = ScalingActions(store=self._store, alarms=TrackingAlarms(clients=clients), history=history)
        self._scaler = Scaler(
            store=self._store,
            history=history,
            endpoints=endpoints,
            read_alarm=self._read_alarm,
            remove_target=actions.remove,
            time_scale=time_scale,
        )
        self._control_plane = ControlPlane(
            service=SERVICE,
            actions={name: getattr(actions, xform_name(name)) for name in OFFERED},
        )

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return self._control_plane(environ, start_response)

    @property
    def tables(self) -> Tables:
        """Its persistent tables; restored before `resume` after a restart."""
        return vars(self._store)

    def inventory(self) -> list[dict[str, str]]:
        """List the resources of all accounts and regions. Activities are not resources."""
        return [
            {
                "service": SERVICE,
                "type": kind,
                "id": name,
                "account": scope.account,
                "region": scope.region,
            }
            for scope, target in self._store.targets.everywhere()
            for kind, names in (
                ("scalable-target", (target.resource,)),
                ("scaling-policy", target.policies),
                ("scheduled-action", target.schedules),
            )
            for name in names
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
        """Begin to scale."""
        self._scaler.start()

    def close(self) -> None:
        """Stop scaling."""
        self._scaler.close()

    def _read_alarm(self, scope: Scope, name: str) -> AlarmReading | None:
        alarm = find_alarm(scope, name)
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
