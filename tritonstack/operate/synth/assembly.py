"""Read and copy the CDK's cloud assembly: stacks and templates."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tritonstack.base.files import read_json
from tritonstack.operate.shared.aws import Cloud, in_parallel
from tritonstack.operate.shared.stacks import StackState, stored_template

Template = Mapping[str, Any]
"""A CloudFormation template."""

_ROLES = ("assumeRoleArn", "cloudFormationExecutionRoleArn", "lookupRole")


@dataclass(frozen=True)
class Assembly:
    """A folder of templates and the CDK's manifest."""

    folder: Path

    @property
    def stacks(self) -> list[str]:
        """Return the stack names."""
        artifacts = self._manifest["artifacts"]
        return [name for name, item in artifacts.items() if item["type"] == "aws:cloudformation:stack"]

    def template(self, stack: str) -> Template:
        """Return a stack's template."""
        template: Template = read_json(self._template_file(stack))
        return template

    def with_templates(self, templates: Mapping[str, Template], folder: Path) -> Assembly:
        """Copy the assembly to a new folder with other templates for some stacks.

        The CDK deploys them with the same roles, tags, and parameters.
        """
        shutil.copytree(self.folder, folder)
        changed = Assembly(folder)
        manifest = changed._manifest
        for stack, template in templates.items():
            url = changed._replace_template(stack, json.dumps(template, indent=1))
            manifest["artifacts"][stack]["properties"]["stackTemplateAssetObjectUrl"] = url
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
        return changed

    def without_roles(self, folder: Path) -> Assembly:
        """Copy the assembly to a new folder so that the CDK uses the caller's permissions."""
        shutil.copytree(self.folder, folder)
        copy = Assembly(folder)
        manifest = copy._manifest
        for stack in copy.stacks:
            for role in _ROLES:
                manifest["artifacts"][stack]["properties"].pop(role, None)
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
        return copy

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = read_json(self.folder / "manifest.json")
        return manifest

    def _template_file(self, stack: str) -> Path:
        name: str = self._manifest["artifacts"][stack]["properties"]["templateFile"]
        return self.folder / name

    def _replace_template(self, stack: str, text: str) -> str:
        """Write a stack's template, and record its new file name in the asset list."""
        template = self._template_file(stack)
        template.write_text(text)
        file = self.folder / self._manifest["artifacts"][f"{stack}.assets"]["properties"]["file"]
        assets = read_json(file)
        old = next(key for key, item in assets["files"].items() if item["source"]["path"] == template.name)
        item = assets["files"].pop(old)
        digest = hashlib.sha256(text.encode()).hexdigest()
        for destination in item["destinations"].values():
            destination["objectKey"] = f"{digest}.json"
        assets["files"][digest] = item
        file.write_text(json.dumps(assets, indent=1))
        return f"s3://{destination['bucketName']}/{digest}.json"


Properties = Mapping[str, Any]

ENDPOINT = "AWS::SageMaker::Endpoint"
CONFIG = "AWS::SageMaker::EndpointConfig"
MODEL = "AWS::SageMaker::Model"
COMPONENT = "AWS::SageMaker::InferenceComponent"
TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"

_VARIANTS = ("ProductionVariants", "ShadowProductionVariants")
_VARIANT_COUNT = "sagemaker:variant:DesiredInstanceCount"
_VARIANT = re.compile(r"variant/([A-Za-z0-9-]+)")


@dataclass(frozen=True)
class EndpointTemplate:
    """The endpoint of a stack."""

    template: Template

    @property
    def endpoint(self) -> Properties | None:
        """Return the endpoint's properties; None if there is no endpoint."""
        return next((item["Properties"] for item in self._of_type(ENDPOINT).values()), None)

    @property
    def component(self) -> Properties | None:
        """Return the properties of its inference component, if any."""
        return next((item["Properties"] for item in self._of_type(COMPONENT).values()), None)

    @property
    def config(self) -> Properties:
        """Return the properties of its configuration."""
        return next((item["Properties"] for item in self._of_type(CONFIG).values()), {})

    @property
    def variants(self) -> Mapping[str, Properties]:
        """Return the properties of each variant, shadow included."""
        listed = [variant for key in _VARIANTS for variant in self.config.get(key, ())]
        return {variant["VariantName"]: variant for variant in listed}

    @property
    def targets(self) -> Mapping[str, str]:
        """Return the logical ids of scaling resources, with their variants."""
        variants = {}
        for logical_id, item in self._of_type(TARGET).items():
            properties = item["Properties"]
            named = _VARIANT.search(json.dumps(properties["ResourceId"]))
            if properties["ScalableDimension"] == _VARIANT_COUNT and named:
                variants[logical_id] = named[1]
        return variants

    @property
    def scheduled(self) -> Mapping[str, Properties]:
        """Return the properties of the scaling resources with scheduled actions, by logical id."""
        targets = {name: item["Properties"] for name, item in self._of_type(TARGET).items()}
        return {name: target for name, target in targets.items() if target.get("ScheduledActions")}

    def model(self, holder: Properties) -> Properties:
        """Return the properties of the model that a variant or component refers to."""
        resources = self.template.get("Resources", {})
        referred = (resources[name] for name in references(holder) if name in resources)
        return next((item["Properties"] for item in referred if item["Type"] == MODEL), {})

    def _of_type(self, kind: str) -> dict[str, Any]:
        resources = self.template.get("Resources", {})
        return {name: item for name, item in resources.items() if item["Type"] == kind}


def with_instance_types(template: Template, types: Mapping[str, str | None]) -> Template:
    """Return a template whose variants have these instance types, as far as they are named."""

    def variant(properties: Properties) -> Properties:
        name, old = properties["VariantName"], properties.get("InstanceType")
        return {**properties, "InstanceType": types.get(name) or old} if old else properties

    resources = {
        name: {
            **item,
            "Properties": {
                key: [variant(properties) for properties in value] if key in _VARIANTS else value
                for key, value in item["Properties"].items()
            },
        }
        if item["Type"] == CONFIG
        else item
        for name, item in template["Resources"].items()
    }
    return {**template, "Resources": resources}


def parameter_of(value: Any, template: Template) -> Properties | None:
    """Return the declaration of the parameter that a value is; None for other values."""
    name = value.get("Ref") if isinstance(value, Mapping) else None
    parameter: Properties | None = template.get("Parameters", {}).get(name)
    return parameter


def references(value: Any) -> Iterator[str]:
    """Return the logical ids that a value refers to, by Ref, Fn::GetAtt, or Fn::Sub."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "Ref" and isinstance(inner, str):
                yield inner
            elif key == "Fn::GetAtt":
                yield inner.partition(".")[0] if isinstance(inner, str) else inner[0]
            elif key == "Fn::Sub":
                text = inner if isinstance(inner, str) else inner[0]
                yield from (name.partition(".")[0] for name in re.findall(r"\$\{([^!}]+)\}", text))
            yield from references(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from references(inner)


# CloudFormation stores them with `?` for every non-ASCII character; the resources have the original text. A
# change of only such characters is not detected.


_TEMPLATES_AT_ONCE = 4
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def deployed_templates(
    cloud: Cloud, stacks: Iterable[StackState], *, assembly: Assembly | None = None
) -> dict[str, Template]:
    """Return the templates of existing stacks by name, restored to their original text with `assembly`.

    Without `assembly`, they are as CloudFormation stores them.
    """

    def fetch(name: str) -> Template | None:
        stored = stored_template(cloud, name, stage="Original")
        if stored is None or assembly is None or name not in assembly.stacks:
            return stored
        written: Template = as_written(stored, assembly.template(name))
        return written

    names = [stack.name for stack in stacks if stack.was_created]
    templates = zip(names, in_parallel(fetch, names, at_once=_TEMPLATES_AT_ONCE), strict=True)
    return {name: template for name, template in templates if template is not None}


def as_stored(text: str) -> str:
    """Return the text as CloudFormation returns it."""
    return _BEYOND_ASCII.sub("?", text)


def as_written(stored: Any, expected: Any) -> Any:
    """Restore the original text of a stored template or part.

    `expected` is the new value in its place, if any.
    """
    if isinstance(stored, Mapping) and isinstance(expected, Mapping):
        return {name: as_written(value, expected.get(name)) for name, value in stored.items()}
    if isinstance(stored, list) and isinstance(expected, list):
        beside = [*expected, *[None] * (len(stored) - len(expected))]
        return [as_written(value, other) for value, other in zip(stored, beside, strict=False)]
    if isinstance(stored, str) and isinstance(expected, str) and stored == as_stored(expected):
        return expected
    return stored
