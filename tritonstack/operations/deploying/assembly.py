"""What `cdk synth` wrote: the stacks of an environment and their templates."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

Template = Mapping[str, Any]
"""A CloudFormation template."""

_ROLES = ("assumeRoleArn", "cloudFormationExecutionRoleArn", "lookupRole")


@dataclass(frozen=True)
class Assembly:
    """A folder with templates, and a manifest that says how the CDK deploys them."""

    folder: Path

    @property
    def stacks(self) -> list[str]:
        """The names of its stacks."""
        artifacts = self._manifest["artifacts"]
        return [name for name, item in artifacts.items() if item["type"] == "aws:cloudformation:stack"]

    def template(self, stack: str) -> Template:
        """What a stack is to be."""
        template: Template = json.loads(self._template_file(stack).read_text())
        return template

    def with_templates(self, templates: Mapping[str, Template], folder: Path) -> Assembly:
        """A copy of this assembly in a new folder, in which some stacks have other templates.

        The CDK deploys those with the roles, tags and parameters that it would deploy the stacks with anyhow.
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
        """A copy of this assembly in a new folder, whose stacks the CDK looks at with the caller's rights."""
        shutil.copytree(self.folder, folder)
        looked_at = Assembly(folder)
        manifest = looked_at._manifest
        for stack in looked_at.stacks:
            for role in _ROLES:
                manifest["artifacts"][stack]["properties"].pop(role, None)
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
        return looked_at

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        return manifest

    def _template_file(self, stack: str) -> Path:
        name: str = self._manifest["artifacts"][stack]["properties"]["templateFile"]
        return self.folder / name

    def _replace_template(self, stack: str, text: str) -> str:
        """Write a stack's template, and say in its list of files that it is uploaded under another name."""
        template = self._template_file(stack)
        template.write_text(text)
        file = self.folder / self._manifest["artifacts"][f"{stack}.assets"]["properties"]["file"]
        assets = json.loads(file.read_text())
        old = next(key for key, item in assets["files"].items() if item["source"]["path"] == template.name)
        item = assets["files"].pop(old)
        digest = hashlib.sha256(text.encode()).hexdigest()
        for destination in item["destinations"].values():
            destination["objectKey"] = f"{digest}.json"
        assets["files"][digest] = item
        file.write_text(json.dumps(assets, indent=1))
        return f"s3://{destination['bucketName']}/{digest}.json"
