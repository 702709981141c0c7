"""The CodePipeline: the order of its steps, with their files and roles."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from stacks.pipeline import line_of
from tests.delivery.delivery_project import DEV, PROD, TOOLS
from tests.stacks.templates import of_type
from tritonstack.base.errors import UsageError

NAME = "tritonstack-delivery-pipeline"
STEPS = (
    "build-dev",
    "synth",
    "deploy-dev",
    "verify-dev",
    "promote-staging",
    "deploy-staging",
    "verify-staging",
    "promote-prod",
    "deploy-prod",
    "verify-prod",
)


def projects(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The CodeBuild projects by the names of their steps."""
    resources = of_type(template, "AWS::CodeBuild::Project").values()
    return {item["Name"].removeprefix(f"{NAME}-"): item for item in resources}


def commands(template: dict[str, Any], step: str) -> list[str]:
    phases = json.loads(projects(template)[step]["Source"]["BuildSpec"])["phases"]
    return [command for phase in ("install", "build") for command in phases[phase].get("commands", [])]


def line(template: dict[str, Any]) -> dict[str, Any]:
    (properties,) = of_type(template, "AWS::CodePipeline::Pipeline").values()
    return properties


def actions(template: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The pipeline's actions in order."""
    return [
        (stage["Name"], action)
        for stage in line(template)["Stages"]
        for action in sorted(stage["Actions"], key=lambda action: action["RunOrder"])
    ]


PROGRAMS = {
    "python3": "mkdir -p .venv/bin",
    "pip": "[ -f requirements.lock.txt ]",
    "aws": "true",
    "cdk": "[ -f environments/dev.lock.yaml ] && mkdir cdk.out",
    "tritonstack": """case $1 in
  build) echo built >environments/$2.lock.yaml ;;
  promote) cp environments/$2.lock.yaml environments/$3.lock.yaml ;;
  deploy | verify) [ -f environments/$2.lock.yaml ] ;;
esac""",
}
"""Stand-ins of the programs that steps call; each notes its command and its AWS profile."""


ROLES = {"build": "deploy", "verify": "deploy"}
"""The role of a step, if its duty is not its command."""


def test_buildspecs_run_with_the_files_that_earlier_steps_hand_over(pipeline, roads, tmp_path):
    called = tmp_path / "called"
    (programs := tmp_path / "programs").mkdir()
    for name, script in PROGRAMS.items():
        noted = f'echo "{name} $* ($AWS_PROFILE)" >>"$STEP_CALLS"'
        (programs / name).write_text(f"#!/bin/sh\n{noted}\n{script}\n")
        (programs / name).chmod(0o755)
    outputs: dict[str, Path] = {}
    last = {}
    for _, action in actions(pipeline):
        if action["ActionTypeId"]["Provider"] != "CodeBuild":
            continue
        step = action["Name"].lower()
        here = tmp_path / step
        shutil.copytree(roads.root, here, ignore=shutil.ignore_patterns("*.lock.yaml"))
        handed = {
            f"CODEBUILD_SRC_DIR_{item['Name']}": str(outputs[item["Name"]])
            for item in action["InputArtifacts"][1:]
        }
        called.unlink(missing_ok=True)
        subprocess.run(
            ["bash", "-e", "-c", "\n".join(commands(pipeline, step))],
            cwd=here,
            env={"PATH": f"{programs}:{os.environ['PATH']}", "STEP_CALLS": str(called), **handed},
            check=True,
        )
        last[step] = called.read_text().splitlines()[-1]
        for output in action.get("OutputArtifacts", []):
            spec = json.loads(projects(pipeline)[step]["Source"]["BuildSpec"])
            outputs[output["Name"]] = here / spec["artifacts"]["base-directory"]
    assert last.pop("synth").split() == ["cdk", "synth", "--quiet", "-c", "env=dev", "()"]
    staging, prod = {"promote": "dev staging"}, {"promote": "staging prod"}
    assert last == {
        f"{duty}-{name}": f"tritonstack {duty} {order.get(duty, name)} ({name}-{ROLES.get(duty, duty)})"
        for name, duties, order in (
            ("dev", ("build", "deploy", "verify"), {}),
            ("staging", ("promote", "deploy", "verify"), staging),
            ("prod", ("promote", "deploy", "verify"), prod),
        )
        for duty in duties
    }


def statements(template: dict[str, Any], role: str) -> list[dict[str, Any]]:
    return [
        statement
        for key, item in template["Resources"].items()
        if item["Type"] == "AWS::IAM::Policy" and key.startswith(f"Roles{role}")
        for statement in item["Properties"]["PolicyDocument"]["Statement"]
    ]


@pytest.mark.parametrize(
    ("step", "takes_on"),
    [
        ("Stepsynth", []),
        ("Stepdeploydev", ["dev-deploy"]),
        ("Stepcleanupdev", ["dev-clean-up"]),
        ("Stepdeploystaging", ["staging-deploy"]),
        ("Steppromotestaging", ["staging-promote"]),
        ("Stepdeployprod", ["prod-deploy"]),
        ("Steppromoteprod", ["prod-promote"]),
        ("Line", []),
    ],
)
def test_step_can_assume_only_one_role_of_one_environment(pipeline, step, takes_on):
    """So a step before an approval cannot reach anything after it."""
    granted = statements(pipeline, step)
    accounts = {"dev": DEV, "staging": DEV, "prod": PROD}
    assert [s["Resource"] for s in granted if "sts:AssumeRole" in s["Action"]] == [
        [f"arn:aws:iam::{accounts[role.partition('-')[0]]}:role/tritonstack-delivery-{role}"]
        for role in takes_on
    ]
    allowed = {action for statement in granted for action in statement["Action"]}
    assert not [action for action in allowed if "*" in action]
    services = {action.partition(":")[0] for action in allowed}
    assert services <= {"s3", "kms", "logs", "sts", "codebuild", "codeconnections", "codestar-connections"}


def test_connection_can_be_tested_before_the_project_exists(pipeline):
    """CodeBuild tests it with the project's own role, inside CreateProject."""
    (reap,) = [
        item
        for item in pipeline["Resources"].values()
        if item["Type"] == "AWS::CodeBuild::Project" and item["Properties"]["Name"] == f"{NAME}-reap"
    ]
    connection = reap["Properties"]["Source"]["Auth"]["Resource"]
    role = reap["Properties"]["ServiceRole"]["Fn::GetAtt"][0]
    (policy,) = [
        key for key, item in of_type(pipeline, "AWS::IAM::Policy").items() if {"Ref": role} in item["Roles"]
    ]
    assert policy in reap["DependsOn"]
    allowed = {
        action
        for statement in of_type(pipeline, "AWS::IAM::Policy")[policy]["PolicyDocument"]["Statement"]
        if statement["Resource"] == [connection]
        for action in statement["Action"]
    }
    assert allowed == {
        f"{service}:{action}"
        for service in ("codeconnections", "codestar-connections")
        for action in ("UseConnection", "GetConnection", "GetConnectionToken")
    }


def test_steps_with_given_files_get_no_repository_token(pipeline):
    handed = {step.replace("-", "").replace("verify", "deploy") for step in STEPS} - {"builddev"}
    assert handed
    for step in handed:
        granted = statements(pipeline, f"Step{step}")
        assert granted, step
        assert "GetConnectionToken" not in json.dumps(granted)


def test_actions_have_no_separate_role(pipeline):
    """CodePipeline assumes an action's role from the pipeline's, which no role trusts."""
    assert [action["Name"] for _, action in actions(pipeline) if "RoleArn" in action] == []
    (started,) = [
        s["Resource"] for s in statements(pipeline, "Line") if "codebuild:StartBuild" in s["Action"]
    ]
    assert started == [f"arn:aws:codebuild:eu-west-1:{TOOLS}:project/{NAME}-*"]


def test_missing_lock_of_the_requirements_is_reported(roads):
    file = roads.root / "requirements.lock.txt"
    text = file.read_text()
    file.unlink()
    try:
        with pytest.raises(UsageError, match=r"requirements\.lock\.txt") as caught:
            line_of(roads, "main")
        assert "tritonstack upgrade" in caught.value.remedy
    finally:
        file.write_text(text)
