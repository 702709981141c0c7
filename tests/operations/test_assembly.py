"""Assemblies read as the CDK wrote them, and copies of them with other templates."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from operations.deploying.assembly import Assembly
from tests.operations.conftest import STACK, Synthesised

FOUNDATION = "tritonstack-dev-foundation"


def test_an_assembly_knows_its_stacks(synthesised: Synthesised) -> None:
    assembly = synthesised()
    assert {FOUNDATION, STACK} <= {*assembly.stacks}
    assert not any(name.endswith(".assets") for name in assembly.stacks)
    assert "AWS::SageMaker::Endpoint" in {
        item["Type"] for item in assembly.template(STACK)["Resources"].values()
    }


@pytest.fixture
def changed(synthesised: Synthesised, tmp_path: Path) -> Assembly:
    return synthesised().with_templates({STACK: {"Resources": {}}}, tmp_path / "changed")


def test_a_copy_holds_the_other_template(synthesised: Synthesised, changed: Assembly) -> None:
    assert Assembly(changed.folder).template(STACK) == {"Resources": {}}
    assert changed.template(FOUNDATION) == synthesised().template(FOUNDATION)
    assert synthesised().template(STACK) != {"Resources": {}}


def test_the_cdk_uploads_and_deploys_the_other_template(synthesised: Synthesised, changed: Assembly) -> None:
    """It takes the URL from the manifest, the object from the list of assets; both say the new hash."""
    text = (changed.folder / f"{STACK}.template.json").read_text()
    digest = hashlib.sha256(text.encode()).hexdigest()
    [(key, asset)] = json.loads((changed.folder / f"{STACK}.assets.json").read_text())["files"].items()
    [destination] = asset["destinations"].values()
    assert (key, destination["objectKey"]) == (digest, f"{digest}.json")
    manifests = [
        json.loads((folder / "manifest.json").read_text())["artifacts"]
        for folder in (synthesised().folder, changed.folder)
    ]
    url = manifests[1][STACK]["properties"].pop("stackTemplateAssetObjectUrl")
    assert url == f"s3://{destination['bucketName']}/{digest}.json"
    del manifests[0][STACK]["properties"]["stackTemplateAssetObjectUrl"]
    assert manifests[0] == manifests[1]
