"""Resource providers, by AWS service; PROVIDERS lists every type the local cloud can deploy.

resource_types.yaml has their properties, and the calls of most of them; the classes here do what takes more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tritonstack.base.yaml import load_yaml
from tritonstack_local.cloudformation.providers import sagemaker, services
from tritonstack_local.cloudformation.providers.base import (
    Creation,
    Deletion,
    Name,
    Property,
    PropertySetting,
    Provider,
    Tagging,
    small,
)
from tritonstack_local.cloudformation.providers.values import CONVERSIONS
from tritonstack_local.codebuild.unsupported import ACCEPTED_WITHOUT_EFFECT as ACCEPTED_IN_CODEBUILD
from tritonstack_local.sagemaker.rules import NO_COMPONENTS
from tritonstack_local.service.errors import sentence

_TYPES = Path(__file__).with_name("resource_types.yaml")
_CLASSES = {**sagemaker.CLASSES, **services.CLASSES}
_LISTS = ("items", "keys", "unchangeable", "unsent", "volatile_attributes")
_PROJECT = "AWS::CodeBuild::Project"


def _provider(type_name: str, declared: dict[str, Any]) -> Provider:
    """Create a provider; the keys in the file are the fields of the records in base.py."""
    fields: dict[str, Any] = {**declared, "properties": dict(_properties(type_name, declared["properties"]))}
    for key, record in (("name", Name), ("creation", Creation), ("deletion", Deletion)):
        if key in fields:
            fields[key] = record(**fields[key])
    if "tagging" in fields:
        fields["tagging"] = Tagging(**_converted(fields["tagging"]))
    settings = fields.get("settings", {})
    fields["settings"] = {name: PropertySetting(**_converted(setting)) for name, setting in settings.items()}
    fields |= {key: tuple(fields[key]) for key in _LISTS if key in fields}
    return _CLASSES.get(type_name, Provider)(type_name=type_name, **fields)


def _properties(type_name: str, declared: Mapping[str, Any]) -> Iterator[tuple[str, Property]]:
    """Yield properties; several names, and a shape that ends with a dot, stand for one property each."""
    for names, fields in declared.items():
        for name in names.split():
            spec = dict(fields or {})
            if spec.get("shape", "").endswith("."):
                spec["shape"] += name
            reason = ACCEPTED_IN_CODEBUILD.get(f"CreateProject.{small(name)}")
            if type_name == _PROJECT and reason is not None:
                spec |= {"effect": False, "reason": sentence(reason)}
            inner = spec.get("inner", {}).items()
            spec["inner"] = {path: reason for paths, reason in inner for path in paths.split()}
            yield name, Property(**spec)


def _converted(setting: Mapping[str, Any]) -> dict[str, Any]:
    return {**setting, **({"write": CONVERSIONS[setting["write"]]} if "write" in setting else {})}


PROVIDERS: Mapping[str, Provider] = {
    name: _provider(name, declared) for name, declared in load_yaml(_TYPES.read_text()).items()
}


def providers_for(*, rollback_fails_update: bool) -> Mapping[str, Provider]:
    """Return the providers of a cloud with these settings."""
    if not rollback_fails_update:
        return PROVIDERS
    name = "AWS::SageMaker::Endpoint"
    return {**PROVIDERS, name: replace(PROVIDERS[name], rollback_fails_update=True)}  # type: ignore[call-arg]


_NO_PROVIDER = "The local cloud does not support connections to Git providers."
UNSUPPORTED_TYPES: Mapping[str, str] = {
    "AWS::CloudWatch::CompositeAlarm": "The local cloud does not support composite alarms.",
    "AWS::CodeConnections::Connection": _NO_PROVIDER,
    "AWS::CodePipeline::Pipeline": "The local cloud runs no pipelines; run their commands yourself.",
    "AWS::CodeStarConnections::Connection": _NO_PROVIDER,
    "AWS::SageMaker::InferenceComponent": sentence(NO_COMPONENTS),
}
"""Rejected resource types, with the reasons. Types neither here nor in PROVIDERS are unknown."""
