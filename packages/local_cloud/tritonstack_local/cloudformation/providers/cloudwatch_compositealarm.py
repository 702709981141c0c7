"""AWS::CloudWatch::CompositeAlarm."""

from __future__ import annotations

from typing import ClassVar

from tritonstack_local.cloudformation.providers.base import Property, ResourceRequest
from tritonstack_local.cloudformation.providers.cloudwatch_alarm import ACTIONS, SNS_ALONE, Alarm

_SETTINGS = (
    "ActionsEnabled",
    "AlarmActions",
    "AlarmDescription",
    "AlarmRule",
    "InsufficientDataActions",
    "OKActions",
    "Tags",
)

_NO_SUPPRESSION = "Not kept: no alarm holds another one's actions back, so topics hear of more than on AWS."


class CompositeAlarm(Alarm):
    """Named, deleted and asked for its ARN as every alarm is; only what it watches differs."""

    type_name = "AWS::CloudWatch::CompositeAlarm"
    properties: ClassVar = {
        "ActionsSuppressor": Property(effect=False, why=_NO_SUPPRESSION),
        "ActionsSuppressorExtensionPeriod": Property(effect=False, why=_NO_SUPPRESSION),
        "ActionsSuppressorWaitPeriod": Property(effect=False, why=_NO_SUPPRESSION),
        "AlarmName": Property(create_only=True),
        **{
            name: Property(
                shape=f"cloudwatch:PutCompositeAlarm.{name}",
                required=name == "AlarmRule",
                why=SNS_ALONE if name in ACTIONS else "",
            )
            for name in _SETTINGS
        },
    }

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Put the alarm."""
        request.client("cloudwatch").put_composite_alarm(AlarmName=physical_id, **request.api(*_SETTINGS))
