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
from tests.sample_templates import SAMPLES, sample_assembly
from tests.stacks.assemblies import ROOT, Assembly, Synthesize, lock_everything, new_app
from tests.stacks.rules.checkov import Finding, check_folder, excused, without_suppressions
from tritonstack.base.paths import Project
from tritonstack.project.names import environment_names

REPOSITORY = environment_names(Project(ROOT))
ENVIRONMENTS = [*REPOSITORY, *SAMPLES]

Record = Callable[[str, object], None]


def plug_in_rules(app: cdk.App) -> None:
    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app, verbose=True))


def reports(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the report of each rule set by name."""
    report = json.loads((folder / "validation-report.json").read_text())
    return {plugin["pluginName"]: plugin for plugin in report["pluginReports"]}


@pytest.fixture(scope="module")
def assemblies(locked_repository: Project, synthesize: Synthesize) -> dict[str, Assembly]:
    """Every environment with everything built, synthesized with the rules plugged in."""
    workspaces = {name: lock_everything(locked_repository, name) for name in REPOSITORY}
    workspaces |= {name: sample_assembly(name).workspace for name in SAMPLES}
    return {name: synthesize(workspace, plug_in_rules) for name, workspace in workspaces.items()}


@pytest.fixture(params=ENVIRONMENTS)
def checked(request: pytest.FixtureRequest, assemblies: dict[str, Assembly]) -> Assembly:
    """One of them."""
    return assemblies[request.param]


def test_nag_findings_are_all_explained(checked, record_property):
    nag = reports(checked.folder)["AwsSolutions"]
    assert nag["conclusion"] == "success"
    assert nag["violations"] == []
    suppressed = nag["suppressedViolations"]
    tell(
        record_property,
        f"cdk-nag, {checked.workspace.spec.name}",
        [f"{item['acknowledgedAt']}: {item['ruleName']}: {item['reason']}" for item in suppressed],
    )
    assert all(len(finding["reason"].split()) >= 5 for finding in suppressed)


def test_no_suppression_is_unused(checked):
    """Each acknowledged rule has a finding to suppress, in each endpoint's stack."""
    silenced = {f["acknowledgedId"] for f in reports(checked.folder)["AwsSolutions"]["suppressedViolations"]}
    acknowledged = set()
    for file in checked.folder.glob("*.metadata.json"):
        for entries in json.loads(file.read_text()).values():
            for entry in entries:
                if entry["type"] == "aws:cdk:acknowledged-rules":
                    acknowledged.update(entry["data"])
    assert acknowledged == silenced


@pytest.mark.parametrize(
    "name", [*REPOSITORY, *(pytest.param(name, marks=pytest.mark.e2e) for name in SAMPLES)]
)
def test_cfn_lint_finds_nothing(assemblies, name):
    checked = assemblies[name]
    templates = checked.templates
    assert len(templates) >= 1 + len(checked.workspace.spec.endpoints)
    for template in templates:
        assert lint_findings(template.read_text(), checked.workspace.spec.region) == []


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


@dataclass(frozen=True)
class CheckovRun:
    """One checkov run over everything: it takes longer to start than to check."""

    as_deployed: set[Finding]
    """What it finds in the templates as they are deployed."""
    bare: set[Finding]
    """What it would find if no resource were excused from anything."""
    careless: set[Finding]
    """What it finds in a careless template."""
    excused: dict[Finding, str]
    """What resources are excused from, with the reasons."""


@pytest.fixture(scope="module")
def checkov(
    assemblies: dict[str, Assembly], careless: Path, tmp_path_factory: pytest.TempPathFactory
) -> CheckovRun:
    folder, excuses = tmp_path_factory.mktemp("checkov"), {}
    for name, assembly in assemblies.items():
        for file in assembly.templates:
            template = json.loads(file.read_text())
            excuses |= excused(f"{name}/{file.name}", template)
            write(folder / "as-deployed" / name / file.name, template)
            write(folder / "bare" / name / file.name, without_suppressions(template))
    write(folder / "careless" / "template.json", json.loads(careless.read_text()))
    findings = check_folder(folder)
    return CheckovRun(
        *(within(findings, part) for part in ("as-deployed", "bare", "careless")), excused=excuses
    )


def write(file: Path, template: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(template))


def within(findings: set[Finding], part: str) -> set[Finding]:
    """Return the findings in one folder, with paths relative to it."""
    return {
        Finding(finding.template.removeprefix(f"{part}/"), finding.resource, finding.check)
        for finding in findings
        if finding.template.startswith(f"{part}/")
    }


@pytest.mark.e2e
@pytest.mark.soak
def test_checkov_findings_are_all_explained(checkov, record_property):
    assert sorted(checkov.as_deployed) == []
    tell(
        record_property,
        "checkov, all environments",
        [f"{f.template}: {f.resource}: {f.check}: {reason}" for f, reason in sorted(checkov.excused.items())],
    )
    assert all(len(reason.split()) >= 5 for reason in checkov.excused.values())


@pytest.mark.e2e
@pytest.mark.soak
def test_no_checkov_suppression_is_unused(checkov):
    """Each suppressed rule has a finding to suppress."""
    assert set(checkov.excused) == checkov.bare


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
    (finding,) = [f for f in lint_findings(careless.read_text(), "eu-central-1") if f.startswith("E")]
    assert "31 is not" in finding


@pytest.mark.e2e
@pytest.mark.soak
def test_checkov_would_find_something(checkov):
    assert {"CKV_AWS_18", "CKV_AWS_21", "CKV_AWS_158"} <= {finding.check for finding in checkov.careless}
