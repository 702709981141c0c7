"""Read and copy the CDK's cloud assembly: stacks and templates."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tritonstack.base.files import read_json

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
