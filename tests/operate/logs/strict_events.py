"""A stand-in for FilterLogEvents that validates calls and pages as CloudWatch Logs does."""

import itertools
import json
from typing import Any

from tests.operate.strict_aws import checked, client_error

_PAGE = 2


class StrictEvents:
    """Log groups. A page holds two events, in order of time; the first page of each call is empty."""

    def __init__(self, *groups: str) -> None:
        self.groups: dict[str, list[dict[str, Any]]] = {group: [] for group in groups}
        self.calls: list[dict[str, Any]] = []
        self.denied = ""
        """The message of AWS, if the credentials lack the permission."""
        self._ids = itertools.count()

    def put(self, group: str, stream: str, at: int, message: str) -> None:
        """Deliver an event, which may be older than others that were delivered."""
        event = {"logStreamName": stream, "timestamp": at, "message": f"{message}\n"}
        self.groups.setdefault(group, []).append({**event, "eventId": f"{next(self._ids):056d}"})

    def filter_log_events(self, **parameters: Any) -> dict[str, Any]:
        checked("logs", "FilterLogEvents", parameters)
        self.calls.append(parameters)
        if self.denied:
            raise client_error("FilterLogEvents", "AccessDeniedException", self.denied)
        if parameters["logGroupName"] not in self.groups:
            message = "The specified log group does not exist."
            raise client_error("FilterLogEvents", "ResourceNotFoundException", message)
        token = parameters.get("nextToken")
        if token is None:
            return {"events": [], "nextToken": "0"}
        events, first = self._found(parameters), int(token)
        more = {"nextToken": str(first + _PAGE)} if first + _PAGE < len(events) else {}
        return {"events": events[first : first + _PAGE], **more}

    def _found(self, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        text = json.loads(parameters.get("filterPattern", '""'))
        return sorted(
            (
                event
                for event in self.groups[parameters["logGroupName"]]
                if event["timestamp"] >= parameters["startTime"]
                and event["logStreamName"].startswith(parameters.get("logStreamNamePrefix", ""))
                and text in event["message"]
            ),
            key=lambda event: event["timestamp"],
        )

    def get_paginator(self, operation: str) -> Any:
        assert operation == "filter_log_events"
        return self

    def paginate(self, **parameters: Any) -> Any:
        page = self.filter_log_events(**parameters)
        yield page
        while "nextToken" in page:
            page = self.filter_log_events(**parameters, nextToken=page["nextToken"])
            yield page
