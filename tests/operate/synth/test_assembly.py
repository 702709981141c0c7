"""Read cloud assemblies of the CDK, and copy them with other templates."""

import hashlib
import json

from tests.operate.conftest import STACK
from tritonstack.operate.synth.assembly import Assembly

FOUNDATION = "tritonstack-dev-foundation"


def test_an_assembly_lists_its_stacks(synthesized):
    assembly = synthesized()
    assert {FOUNDATION, STACK} <= {*assembly.stacks}
    assert not any(name.endswith(".assets") for name in assembly.stacks)
    assert "AWS::SageMaker::Endpoint" in {
        item["Type"] for item in assembly.template(STACK)["Resources"].values()
    }


def test_the_cdk_uploads_and_deploys_the_other_template_of_a_copy(synthesized, tmp_path):
    """It takes the URL from the manifest, the object from the list of assets; both have the new hash."""
    changed = synthesized().with_templates({STACK: {"Resources": {}}}, tmp_path / "changed")
    assert Assembly(changed.folder).template(STACK) == {"Resources": {}}
    assert changed.template(FOUNDATION) == synthesized().template(FOUNDATION)
    text = (changed.folder / f"{STACK}.template.json").read_text()
    digest = hashlib.sha256(text.encode()).hexdigest()
    [(key, asset)] = json.loads((changed.folder / f"{STACK}.assets.json").read_text())["files"].items()
    [destination] = asset["destinations"].values()
    assert (key, destination["objectKey"]) == (digest, f"{digest}.json")
    manifests = [
        json.loads((folder / "manifest.json").read_text())["artifacts"]
        for folder in (synthesized().folder, changed.folder)
    ]
    url = manifests[1][STACK]["properties"].pop("stackTemplateAssetObjectUrl")
    assert url == f"s3://{destination['bucketName']}/{digest}.json"
    del manifests[0][STACK]["properties"]["stackTemplateAssetObjectUrl"]
    assert manifests[0] == manifests[1]


def test_a_copy_without_roles_names_no_role_of_the_account(synthesized, tmp_path):
    """Otherwise the CDK would use a role that reads everything, even for a pull request's diff."""
    looked_at = synthesized().without_roles(tmp_path / "looked-at")
    manifest = json.loads((looked_at.folder / "manifest.json").read_text())
    assert "-role-" in (synthesized().folder / "manifest.json").read_text()
    assert looked_at.stacks == synthesized().stacks
    for stack in looked_at.stacks:
        assert "-role-" not in json.dumps(manifest["artifacts"][stack])
        assert looked_at.template(stack) == synthesized().template(stack)
