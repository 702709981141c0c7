"""Evaluate every alarm several times per minute, and run the actions of state changes.

Minutes follow the cloud's time scale. Each alarm is evaluated four times per minute, on windows that end with
the last full minute (alarms/spec.py); CloudWatch does so once per minute, a minute or two later. A late value
counts at the next evaluation if its minute is in the alarm's windows. An alarm with unchanged windows and
values is skipped, unless SetAlarmState changed its state, which holds until the next evaluation.

Actions run once, when the state changes. As on AWS, actions that trigger scaling policies are the exception:
they run again every minute while the alarm stays in the state.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from functools import partial

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack_local.cloudwatch import logs, metrics, moto_alarms
from tritonstack_local.cloudwatch.alarm_rules import decide, reason
from tritonstack_local.cloudwatch.moto_alarms import AlarmRecord, StateChange, held_alarms
from tritonstack_local.cloudwatch.store import METRICS
from tritonstack_local.moto_patches import events
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.settings import TimeScale

_LOOKS_A_MINUTE = 4
_SHORTEST_PAUSE_S = 0.05
_MINUTE_S = 60
# Delete old values once per so many evaluations; idle metrics would keep theirs otherwise.
_LOOKS_A_SWEEP = 240
_SCALING = "autoscaling"

TriggerPolicy = Callable[[AlarmRecord, str], str | None]
"""Triggers the scaling policy in an alarm's action; returns why it does not."""

log = logging.getLogger(__name__)


class AlarmEvaluator:
    """Evaluates all alarms of all scopes in one thread, until closed."""

    def __init__(self, *, clients: Clients, time_scale: TimeScale, trigger_policy: TriggerPolicy) -> None:
        self._clients = clients
        self._time_scale = time_scale
        self._trigger_policy = trigger_policy
        self._seen: dict[tuple[Scope, str], object] = {}
        self._triggered: dict[tuple[Scope, str], float] = {}
        """When an alarm last triggered scaling policies."""
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        METRICS.start_over(time_scale)
        metrics.apply()
        moto_alarms.apply(on_change=self.notify)
        logs.apply()
        events.apply(deliver=self.deliver)
        self._thread = threading.Thread(target=self._run, name="alarms", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; pending notifications are dropped."""
        self._tasks.put(None)
        self._thread.join()

    def look(self, now: float) -> None:
        """Evaluate every alarm at a point in time."""
        alarms = held_alarms()
        self._seen = {key: inputs for key, inputs in self._seen.items() if key in alarms}
        self._triggered = {key: at for key, at in self._triggered.items() if key in alarms}
        for key, alarm in alarms.items():
            self._evaluate(key, alarm, now)
            self._repeat_scaling(key, alarm, now)

    def notify(self, alarm: AlarmRecord, change: StateChange) -> None:
        """Queue the actions of a change."""
        for action in change.actions:
            self._tasks.put(partial(self._act, action, alarm, change))

    def deliver(self, target_arn: str, message: str) -> None:
        """Queue a message to a rule's target."""

        def task() -> None:
            events.deliver(self._clients, target_arn, message)

        self._tasks.put(task)

    def _run(self) -> None:
        pause = max(_SHORTEST_PAUSE_S, self._time_scale.lasting(_MINUTE_S) / _LOOKS_A_MINUTE)
        evaluations, next_evaluation = 0, time.monotonic() + pause
        while True:
            try:
                task = self._tasks.get(timeout=max(0.0, next_evaluation - time.monotonic()))
            except queue.Empty:
                self._guarded(lambda: self.look(time.time()))
                evaluations, next_evaluation = evaluations + 1, time.monotonic() + pause
                if evaluations % _LOOKS_A_SWEEP == 0:
                    METRICS.forget_old()
                continue
            if task is None:
                return
            self._guarded(task)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:  # an error in one alarm must not stop the others
            log.exception("evaluating alarms")

    def _evaluate(self, key: tuple[Scope, str], alarm: AlarmRecord, now: float) -> None:
        spec = alarm.spec
        span = spec.span(now, self._time_scale)
        versions = tuple(METRICS.version(alarm.scope, metric) for metric in spec.metrics)
        # Without values in its windows, an alarm is decided once for all later ones.
        is_idle = all(METRICS.newest(alarm.scope, metric) < span.start for metric in spec.metrics)
        inputs = (None if is_idle else span, versions, alarm.configuration)
        if self._seen.get(key) == (*inputs, alarm.state):
            return
        decision = decide(spec.observe(alarm.scope, span), spec.condition)
        if decision is not None and decision.state != alarm.state:
            why = reason(decision, spec.condition)
            log.info(
                "alarm %s of %s: from %s to %s: %s", alarm.name, alarm.scope, alarm.state, decision.state, why
            )
            alarm.move(decision.state, reason=why, at=now, on_change=self.notify)
        self._seen[key] = (*inputs, alarm.state)

    def _repeat_scaling(self, key: tuple[Scope, str], alarm: AlarmRecord, now: float) -> None:
        """Trigger scaling policies again, a minute after the last time in the same state."""
        actions = [action for action in alarm.actions if _service(action) == _SCALING]
        last = self._triggered.get(key, alarm.transitioned)
        if not actions or now - max(last, alarm.transitioned) < self._time_scale.lasting(_MINUTE_S):
            return
        self._triggered[key] = now
        for action in actions:
            self._trigger_policy(alarm, action)

    def _act(self, action: str, alarm: AlarmRecord, change: StateChange) -> None:
        failure: str | None = "the local cloud supports SNS and scaling actions only"
        if _service(action) == _SCALING:
            self._triggered[alarm.scope, alarm.name] = time.time()
            failure = self._trigger_policy(alarm, action)
        elif _service(action) == "sns":
            failure = self._publish(action, Message=change.message, Subject=change.subject)
        alarm.note_action(action, failure=failure)

    def _publish(self, topic_arn: str, **fields: str) -> str | None:
        _, _, _, region, account, _ = topic_arn.split(":", 5)
        try:
            self._clients.client("sns", Scope(account, region)).publish(TopicArn=topic_arn, **fields)
        except (ClientError, BotoCoreError) as error:
            log.warning("cannot publish to %s: %s", topic_arn, error)
            return str(error)
        return None


def _service(action: str) -> str:
    """Return the service in an action's ARN."""
    return "".join(action.split(":")[2:3])
