"""cdk-nag's AwsSolutions and cfn-lint over every environment of this repository: nothing unexplained.

Run with `-s` to read how many findings are suppressed, where, and why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag
import pytest
from aws_cdk import aws_s3 as s3
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from catalog.project import Project
from catalog.workspace import environment_names
from tests.stacks.assemblies import ROOT, Assembly, Synthesise, lock_everything, new_app

ENVIRONMENTS = environment_names(Project(ROOT))


def plug_in_rules(app: cdk.App) -> None:
    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app, verbose=True))


def reports(folder: Path) -> dict[str, dict[str, Any]]:
    """What each rule set said, by its name."""
    report = json.loads((folder / "validation-report.json").read_text())
    return {plugin["pluginName"]: plugin for plugin in report["pluginReports"]}


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def checked(request: pytest.FixtureRequest, locked_repository: Project, synthesise: Synthesise) -> Assembly:
    """An environment of this repository, synthesised with the rules plugged in."""
    return synthesise(lock_everything(locked_repository, request.param), plug_in_rules)


def test_nag_finds_nothing_that_is_not_explained(checked):
    nag = reports(checked.folder)["AwsSolutions"]
    assert nag["conclusion"] == "success"
    assert nag["violations"] == []
    suppressed = nag["suppressedViolations"]
    print(f"\n{checked.workspace.spec.name}: {len(suppressed)} findings suppressed, with reasons:")
    for finding in suppressed:
        print(f"  {finding['acknowledgedAt']}: {finding['ruleName']}: {finding['reason']}")
    assert all(len(finding["reason"].split()) >= 5 for finding in suppressed)


def test_no_suppression_is_left_over(checked):
    """Each acknowledged rule has a finding to silence, in each endpoint's stack."""
    silenced = {f["acknowledgedId"] for f in reports(checked.folder)["AwsSolutions"]["suppressedViolations"]}
    acknowledged = set()
    for file in checked.folder.glob("*.metadata.json"):
        for entries in json.loads(file.read_text()).values():
            for entry in entries:
                if entry["type"] == "aws:cdk:acknowledged-rules":
                    acknowledged.update(entry["data"])
    assert acknowledged == silenced


def test_cfn_lint_finds_nothing(checked):
    templates = sorted(checked.folder.glob("*.template.json"))
    assert len(templates) == 1 + len(checked.workspace.spec.endpoints)
    for template in templates:
        findings = lint(template.read_text(), config=ManualArgs(regions=[checked.workspace.spec.region]))
        assert [f"{f.rule.id} {f.message}" for f in findings] == []


def test_the_rules_would_find_something(tmp_path, capfd):
    """A bucket without anything fails, so that the silence above means something."""
    app = new_app(tmp_path)
    s3.Bucket(cdk.Stack(app, "careless"), "Bucket")
    plug_in_rules(app)
    app.synth()
    names = {finding["ruleName"] for finding in reports(tmp_path)["AwsSolutions"]["violations"]}
    assert {"AwsSolutions-S1", "AwsSolutions-S10"} <= names
    capfd.readouterr()
