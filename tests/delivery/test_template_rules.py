"""cdk-nag, cfn-lint, and checkov on the delivery stacks: no finding without a reason."""

import json
from pathlib import Path

import pytest

from stacks.delivery import DeliveryStack
from stacks.delivery_target import delivery_target
from stacks.pipeline import PipelineStack, line_of
from tests.delivery.delivery_project import REGION
from tests.stacks.assemblies import new_app
from tests.stacks.rules.checkov import Finding, check_folder, excused, without_suppressions
from tests.stacks.rules.test_template_rules import lint_findings, plug_in_rules, reports, tell
from tritonstack.base.paths import Project

ENVIRONMENTS = ("dev", "staging", "prod")
STACKS = (*ENVIRONMENTS, "pipeline")


@pytest.fixture(scope="module")
def checked(roads: Project, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The template folder of each stack, with the report of the rules."""
    folder = tmp_path_factory.mktemp("checked")
    for name in ENVIRONMENTS:
        app = new_app(folder / name)
        DeliveryStack(app, target=delivery_target(roads, name))
        plug_in_rules(app)
        app.synth()
    app = new_app(folder / "pipeline")
    PipelineStack(app, line=line_of(roads, "main"))
    plug_in_rules(app)
    app.synth()
    return {name: folder / name / f"tritonstack-delivery-{name}.template.json" for name in STACKS}


@pytest.mark.parametrize("name", STACKS)
def test_nag_findings_are_all_explained(checked, name, record_property):
    nag = reports(checked[name].parent)["AwsSolutions"]
    assert [
        f"{violation['ruleName']} {violation['description'][:80]}" for violation in nag["violations"]
    ] == []
    suppressed = nag["suppressedViolations"]
    tell(
        record_property,
        f"cdk-nag, delivery: {name}",
        [
            f"{violation['acknowledgedAt']}: {violation['ruleName']}: {violation['reason']}"
            for violation in suppressed
        ],
    )
    assert all(len(finding["reason"].split()) >= 5 for finding in suppressed)


@pytest.mark.parametrize("name", STACKS)
def test_no_suppression_is_unused(checked, name):
    folder = checked[name].parent
    silenced = {
        finding["acknowledgedId"] for finding in reports(folder)["AwsSolutions"]["suppressedViolations"]
    }
    acknowledged = {
        rule
        for file in folder.glob("*.metadata.json")
        for entries in json.loads(file.read_text()).values()
        for entry in entries
        if entry["type"] == "aws:cdk:acknowledged-rules"
        for rule in entry["data"]
    }
    assert acknowledged == silenced


@pytest.mark.parametrize("name", STACKS)
def test_cfn_lint_finds_nothing(checked, name):
    assert lint_findings(checked[name].read_text(), REGION) == []


@pytest.mark.e2e
@pytest.mark.soak
def test_checkov_findings_are_all_explained(checked, tmp_path, record_property):
    reasons: dict[Finding, str] = {}
    for name, file in checked.items():
        template = json.loads(file.read_text())
        reasons |= excused(f"bare/{name}/template.json", template)
        for part, content in (("deployed", template), ("bare", without_suppressions(template))):
            folder = tmp_path / part / name
            folder.mkdir(parents=True)
            (folder / "template.json").write_text(json.dumps(content))
    findings = check_folder(tmp_path)
    assert sorted(finding for finding in findings if finding.template.startswith("deployed/")) == []
    assert {finding for finding in findings if finding.template.startswith("bare/")} == set(reasons)
    tell(
        record_property,
        "checkov, delivery",
        [f"{f.resource}: {f.check}: {why}" for f, why in reasons.items()],
    )
    assert all(len(reason.split()) >= 5 for reason in reasons.values())
