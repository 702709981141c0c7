"""From the catalog to CloudFormation: one stack per concern, composed of the constructs below.

Stacks take validated records of the catalog. They find each other through names that follow from the
environment's file (catalog.naming), never through CloudFormation exports.

The constructs are a library too: `from stacks import TritonModel, TritonEndpoint`; docs/constructs.md
shows an app of somebody else's. A name is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog.endpoints import ServingOptions as ServingOptions
    from catalog.scaling import Scaling as Scaling
    from stacks.constructs.answer_topics import AnswerTopics as AnswerTopics
    from stacks.constructs.autoscaling import Autoscaling as Autoscaling
    from stacks.constructs.endpoint_alarms import EndpointAlarms as EndpointAlarms
    from stacks.constructs.endpoint_dashboard import EndpointDashboard as EndpointDashboard
    from stacks.constructs.endpoint_log import EndpointLog as EndpointLog
    from stacks.constructs.triton_endpoint import TritonEndpoint as TritonEndpoint
    from stacks.constructs.triton_model import TritonModel as TritonModel
    from stacks.constructs.triton_variant import TritonVariant as TritonVariant
    from stacks.served import ModelArchive as ModelArchive
    from stacks.served import ModelNetwork as ModelNetwork
    from stacks.served import ModelShelf as ModelShelf
    from stacks.served import TritonImage as TritonImage
    from stacks.watched import Watched as Watched
    from stacks.watched import WatchedVariant as WatchedVariant

_HOMES = {
    "AnswerTopics": "stacks.constructs.answer_topics",
    "Autoscaling": "stacks.constructs.autoscaling",
    "EndpointAlarms": "stacks.constructs.endpoint_alarms",
    "EndpointDashboard": "stacks.constructs.endpoint_dashboard",
    "EndpointLog": "stacks.constructs.endpoint_log",
    "ModelArchive": "stacks.served",
    "ModelNetwork": "stacks.served",
    "ModelShelf": "stacks.served",
    "Scaling": "catalog.scaling",
    "ServingOptions": "catalog.endpoints",
    "TritonEndpoint": "stacks.constructs.triton_endpoint",
    "TritonImage": "stacks.served",
    "TritonModel": "stacks.constructs.triton_model",
    "TritonVariant": "stacks.constructs.triton_variant",
    "Watched": "stacks.watched",
    "WatchedVariant": "stacks.watched",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
