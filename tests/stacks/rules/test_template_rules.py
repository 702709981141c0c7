"""cdk-nag's AwsSolutions, checkov, and cfn-lint on every environment: no finding without a reason.

It covers every environment of this repository, and those of the tests, which have what the repository's lack.
Each run ends with the number of suppressed findings; `-s` prints each with its reason.
"""

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag
import pytest
from aws_cdk import aws_s3 as s3
from cfnlint.config import ConfigMixIn
from cfnlint.decode import decode_str
from cfnlint.runner import Runner

from tests.conftest import SUPPRESSED
from tests.delivery.delivery_project import REGION
from tests.sample_templates import DELIVERY_STACKS, SAMPLES, add_delivery_stack, sample_assembly
from tests.stacks.assemblies import ROOT, Synthesize, lock_everything, new_app
from tests.stacks.rules.checkov import Finding, check_folder, excused, without_suppressions
from tritonstack.base.paths import Project
from tritonstack.files.project.names import environment_names

REPOSITORY = environment_names(Project(ROOT))
DELIVERY = [f"delivery-{name}" for name in DELIVERY_STACKS]
CHECKED = [*REPOSITORY, *SAMPLES, *DELIVERY]

Record = Callable[[str, object], None]


def plug_in_rules(app: cdk.App) -> None:
    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app, verbose=True), rules_of_the_cdk())


@functools.cache
def rules_of_the_cdk() -> cdk.CloudFormationValidatePlugin:
    """Load them once: it takes seconds and 200 MB."""
    return cdk.CloudFormationValidatePlugin()


def reports(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the report of each rule set by name."""
    report = json.loads((folder / "validation-report.json").read_text())
    return {plugin["pluginName"]: plugin for plugin in report["pluginReports"]}


def findings_of_synthesis(folder: Path, *severities: str) -> list[str]:
    """Return what the CDK's own rules find, as `cdk synth` would print it."""
    report = reports(folder).get("CloudFormation Validate", {"violations": []})
    return [finding["ruleName"] for finding in report["violations"] if finding["severity"] in severities]


@dataclass(frozen=True)
class Checked:
    """The folder of an assembly that was synthesized with the rules, and its region."""

    folder: Path
    region: str

    @property
    def templates(self) -> list[Path]:
        return sorted(self.folder.glob("*.template.json"))


@pytest.fixture(scope="module")
def assemblies(
    locked_repository: Project, synthesize: Synthesize, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Checked]:
    """Every environment with everything built, and every delivery stack."""
    workspaces = {name: lock_everything(locked_repository, name) for name in REPOSITORY}
    workspaces |= {name: sample_assembly(name).workspace for name in SAMPLES}
    checked = {
        name: Checked(synthesize(workspace, plug_in_rules).folder, workspace.spec.region)
        for name, workspace in workspaces.items()
    }
    for name in DELIVERY_STACKS:
        folder = tmp_path_factory.mktemp(name)
        app = new_app(folder)
        add_delivery_stack(app, name)
        plug_in_rules(app)
        app.synth()
        checked[f"delivery-{name}"] = Checked(folder, REGION)
    return checked


@pytest.fixture(params=CHECKED)
def checked(request: pytest.FixtureRequest, assemblies: dict[str, Checked]) -> tuple[str, Checked]:
    """The name of one of them, and its assembly."""
    return request.param, assemblies[request.param]


def test_nag_findings_are_all_explained(checked, record_property):
    name, assembly = checked
    nag = reports(assembly.folder)["AwsSolutions"]
    assert nag["conclusion"] == "success"
    assert nag["violations"] == []
    suppressed = nag["suppressedViolations"]
    tell(
        record_property,
        f"cdk-nag, {name}",
        [f"{item['acknowledgedAt']}: {item['ruleName']}: {item['reason']}" for item in suppressed],
    )
    assert all(len(finding["reason"].split()) >= 5 for finding in suppressed)


def test_the_cdks_own_rules_reject_nothing(checked):
    assert findings_of_synthesis(checked[1].folder, "error", "fatal") == []


def test_no_suppression_is_unused(checked):
    """Each acknowledged rule has a finding to suppress, in each endpoint's stack."""
    folder = checked[1].folder
    silenced = {f["acknowledgedId"] for f in reports(folder)["AwsSolutions"]["suppressedViolations"]}
    acknowledged = {
        rule
        for file in folder.glob("*.metadata.json")
        for entries in json.loads(file.read_text()).values()
        for entry in entries
        if entry["type"] == "aws:cdk:acknowledged-rules"
        for rule in entry["data"]
    }
    assert acknowledged == silenced


@pytest.mark.parametrize(
    "name", [*REPOSITORY, *DELIVERY, *(pytest.param(name, marks=pytest.mark.e2e) for name in SAMPLES)]
)
def test_cfn_lint_finds_nothing(assemblies, name):
    checked = assemblies[name]
    assert checked.templates
    for template in checked.templates:
        assert lint_findings(template.read_text(), checked.region) == []


def lint_findings(template: str, region: str) -> list[str]:
    content, unreadable = decode_str(template)
    findings = unreadable or linter(region).validate_template(content)
    return [f"{finding.rule.id} {finding.message}" for finding in findings]


@functools.cache
def linter(region: str) -> Runner:
    """Load the rules once per region: that takes longer than to check a template."""
    return Runner(ConfigMixIn(regions=[region]))


def tell(record: Record, what: str, suppressed: list[str]) -> None:
    """Record the number of suppressions for the summary, and print the reasons on request."""
    record(SUPPRESSED, f"{what}: {len(suppressed)}")
    print(f"\n{what}: {len(suppressed)} findings suppressed, with reasons:", *suppressed, sep="\n  ")


@pytest.mark.e2e
@pytest.mark.soak
def test_checkov_findings_are_all_explained(assemblies, careless, tmp_path, record_property):
    """One run over everything: checkov takes longer to start than to check.

    `bare` is what it would find if no resource were excused from anything.
    """
    reasons: dict[Finding, str] = {}
    for name, assembly in assemblies.items():
        for file in assembly.templates:
            template = json.loads(file.read_text())
            reasons |= excused(f"bare/{name}/{file.name}", template)
            write(tmp_path / "deployed" / name / file.name, template)
            write(tmp_path / "bare" / name / file.name, without_suppressions(template))
    write(tmp_path / "careless" / "template.json", json.loads(careless.read_text()))
    findings = check_folder(tmp_path)
    assert [finding for finding in sorted(findings) if finding.template.startswith("deployed/")] == []
    assert {finding for finding in findings if finding.template.startswith("bare/")} == set(reasons)
    found = {finding.check for finding in findings if finding.template.startswith("careless/")}
    assert found >= {"CKV_AWS_18", "CKV_AWS_21", "CKV_AWS_158"}
    texts = [f"{f.template}: {f.resource}: {f.check}: {reason}" for f, reason in sorted(reasons.items())]
    tell(record_property, "checkov", texts)
    assert all(len(reason.split()) >= 5 for reason in reasons.values())


def write(file: Path, template: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(template))


@pytest.fixture(scope="module")
def careless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template of a bucket and a log group with default settings, with cdk-nag's report beside it."""
    folder = tmp_path_factory.mktemp("careless")
    app = new_app(folder)
    stack = cdk.Stack(app, "careless")
    s3.Bucket(stack, "Bucket")
    cdk.CfnResource(stack, "Group", type="AWS::Logs::LogGroup", properties={"RetentionInDays": 31})
    plug_in_rules(app)
    app.synth()
    return folder / "careless.template.json"


@pytest.mark.e2e
def test_rules_detect_an_error(careless):
    """A careless template fails, so that the absence of findings above means something."""
    nag = {finding["ruleName"] for finding in reports(careless.parent)["AwsSolutions"]["violations"]}
    assert {"AwsSolutions-S1", "AwsSolutions-S10"} <= nag
    assert findings_of_synthesis(careless.parent, "warning") == ["W3030"]
    (finding,) = [f for f in lint_findings(careless.read_text(), "eu-central-1") if f.startswith("E")]
    assert "31 is not" in finding
