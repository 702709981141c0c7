"""AWS::CloudWatch::CompositeAlarm."""

from __future__ import annotations

from typing import ClassVar

from local_cloud.cloudformation.providers.base import Property, ResourceRequest
from local_cloud.cloudformation.providers.cloudwatch_alarm import Alarm

_SETTINGS = (
    "ActionsEnabled",
    "AlarmActions",
    "AlarmDescription",
    "AlarmRule",
    "InsufficientDataActions",
    "OKActions",
    "Tags",
)


class CompositeAlarm(Alarm):
    """Named, deleted and asked for its ARN as every alarm is; only what it watches differs."""

    type_name = "AWS::CloudWatch::CompositeAlarm"
    properties: ClassVar = {
        "ActionsSuppressor": Property(effect=False),
        "ActionsSuppressorExtensionPeriod": Property(effect=False),
        "ActionsSuppressorWaitPeriod": Property(effect=False),
        "AlarmName": Property(create_only=True),
        **{
            name: Property(shape=f"cloudwatch:PutCompositeAlarm.{name}", required=name == "AlarmRule")
            for name in _SETTINGS
        },
    }

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Put the alarm."""
        request.client("cloudwatch").put_composite_alarm(AlarmName=physical_id, **request.api(*_SETTINGS))
