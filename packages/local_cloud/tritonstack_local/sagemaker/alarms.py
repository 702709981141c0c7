"""The alarms that take an update back, read where everybody reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tritonstack_local.clients import Clients
from tritonstack_local.places import Place

ReadAlarms = Callable[[Place, Sequence[str]], dict[str, str]]
"""The states of the named alarms of a place, by name; those that do not exist are left out."""


def ask_cloudwatch(clients: Clients) -> ReadAlarms:
    """Ask this cloud's CloudWatch."""

    def read(place: Place, names: Sequence[str]) -> dict[str, str]:
        if not names:
            return {}
        found = clients.client("cloudwatch", place).describe_alarms(
            AlarmNames=list(names), AlarmTypes=["MetricAlarm", "CompositeAlarm"]
        )
        alarms = [*found.get("MetricAlarms", []), *found.get("CompositeAlarms", [])]
        return {alarm["AlarmName"]: alarm["StateValue"] for alarm in alarms}

    return read
