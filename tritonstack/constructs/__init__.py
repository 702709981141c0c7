"""CDK constructs for Triton endpoints, grouped by concern; the stacks are built from them.

Constructs take validated records. Stacks refer to each other by names derived from the environment's file
(tritonstack.base.naming), never by CloudFormation exports.

Library users import from here: `from tritonstack.constructs import TritonModel, TritonEndpoint`.
docs/constructs.md shows a complete app. Each name is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tritonstack.constructs.endpoint.autoscaling import Autoscaling as Autoscaling
    from tritonstack.constructs.endpoint.endpoint_data import AnswerTopics as AnswerTopics
    from tritonstack.constructs.endpoint.triton_endpoint import TritonEndpoint as TritonEndpoint
    from tritonstack.constructs.endpoint.triton_model import TritonModel as TritonModel
    from tritonstack.constructs.endpoint.triton_variant import TritonVariant as TritonVariant
    from tritonstack.constructs.model_data import ModelArchive as ModelArchive
    from tritonstack.constructs.model_data import ModelNetwork as ModelNetwork
    from tritonstack.constructs.model_data import ModelPrefix as ModelPrefix
    from tritonstack.constructs.model_data import TritonImage as TritonImage
    from tritonstack.constructs.monitoring.endpoint_alarms import EndpointAlarms as EndpointAlarms
    from tritonstack.constructs.monitoring.endpoint_dashboard import EndpointDashboard as EndpointDashboard
    from tritonstack.constructs.monitoring.endpoint_log import EndpointLog as EndpointLog
    from tritonstack.constructs.monitoring.monitored import Monitored as Monitored
    from tritonstack.constructs.monitoring.monitored import MonitoredVariant as MonitoredVariant
    from tritonstack.files.endpoint.endpoint import ServingOptions as ServingOptions
    from tritonstack.files.endpoint.scaling import Scaling as Scaling

_HOMES = {
    "AnswerTopics": "tritonstack.constructs.endpoint.endpoint_data",
    "Autoscaling": "tritonstack.constructs.endpoint.autoscaling",
    "EndpointAlarms": "tritonstack.constructs.monitoring.endpoint_alarms",
    "EndpointDashboard": "tritonstack.constructs.monitoring.endpoint_dashboard",
    "EndpointLog": "tritonstack.constructs.monitoring.endpoint_log",
    "ModelArchive": "tritonstack.constructs.model_data",
    "ModelNetwork": "tritonstack.constructs.model_data",
    "ModelPrefix": "tritonstack.constructs.model_data",
    "Scaling": "tritonstack.files.endpoint.scaling",
    "ServingOptions": "tritonstack.files.endpoint.endpoint",
    "TritonEndpoint": "tritonstack.constructs.endpoint.triton_endpoint",
    "TritonImage": "tritonstack.constructs.model_data",
    "TritonModel": "tritonstack.constructs.endpoint.triton_model",
    "TritonVariant": "tritonstack.constructs.endpoint.triton_variant",
    "Monitored": "tritonstack.constructs.monitoring.monitored",
    "MonitoredVariant": "tritonstack.constructs.monitoring.monitored",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
