"""Every environment that the rules allow can be synthesized."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given

from stacks.environment import add_environment
from tests.environments import NAME, environments, many, write_environment
from tests.stacks.assemblies import lock_everything, new_app


@many(8)
@given(environments())
def test_random_valid_environments_synthesize(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("random")
    workspace = lock_everything(write_environment(folder, data), NAME)
    outdir = tmp_path_factory.mktemp("assembly")
    app = new_app(outdir)
    add_environment(app, workspace=workspace)
    app.synth()
    spec = workspace.spec
    assert spec.endpoints
    for name in spec.endpoints:
        template = json.loads((outdir / f"{spec.base}-endpoint-{name}.template.json").read_text())
        assert endpoint_names(template) == [spec.endpoint_name(name)], errors(outdir)


def endpoint_names(template: dict[str, Any]) -> list[str]:
    return [
        resource["Properties"]["EndpointName"]
        for resource in template.get("Resources", {}).values()
        if resource["Type"] == "AWS::SageMaker::Endpoint"
    ]


def errors(outdir: Path) -> list[str]:
    """Return the errors of the stacks: a stack without resources carries the reason."""
    manifest = json.loads((outdir / "manifest.json").read_text())
    return [
        entry["data"]
        for artifact in manifest["artifacts"].values()
        for entries in artifact.get("metadata", {}).values()
        for entry in entries
        if entry["type"] == "aws:cdk:error"
    ]
