"""Workflows take a session, return frozen results, and neither print nor exit."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import boto3
import pytest

import tritonstack
import tritonstack_sizing
from tests.projects import edit
from tritonstack.base.errors import UsageError
from tritonstack.base.paths import Project
from tritonstack.base.results import document
from tritonstack.operate.destroy.destroy import DestructionPlan, destroy, plan_destruction
from tritonstack.operate.destroy.environment import DestructionPreview
from tritonstack.operate.destroy.reap import ExpiringEnvironments
from tritonstack.operate.shared.deployed import Location, ProtectedError
from tritonstack.operate.shared.session import Session
from tritonstack.operate.status.status import EnvironmentStatus, Statuses

FOLDER = Path(tritonstack.__file__).parent / "operate"
PACKAGES = (tritonstack, tritonstack_sizing)
FUNCTIONS = [(package, name) for package in PACKAGES for name in dir(package) if name.islower()]
_FORBIDDEN = {"print", "input", "exit", "quit", "sys.exit", "os._exit", "sys.stdout.write"}
KEPT = {
    "Type": "AWS::S3::Bucket",
    "DeletionPolicy": "RetainExceptOnCreate",
    "Properties": {"BucketName": "kept"},
}
RETAINING = json.dumps({"Description": "tritonstack: x", "Resources": {"Kept": KEPT}})


@pytest.mark.parametrize(("package", "name"), FUNCTIONS)
def test_a_workflow_takes_a_session_and_returns_a_frozen_result(package: ModuleType, name: str) -> None:
    function = getattr(package, name)
    hints = get_type_hints(function)
    assert hints[next(iter(inspect.signature(function).parameters))] is Session
    result = hints["return"]
    if result is not type(None):
        assert dataclasses.is_dataclass(result)
        assert result.__dataclass_params__.frozen  # type: ignore[attr-defined]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_has_the_name_of_an_exported_function(package: ModuleType) -> None:
    """A package `tritonstack.deploy` would replace the function `deploy` once it is imported."""
    children = {path.stem for path in Path(package.__file__ or "").parent.iterdir()}
    assert children & set(dir(package)) == set()


def test_the_documentation_lists_every_function() -> None:
    text = (FOLDER.parents[1] / "docs" / "python.md").read_text()
    assert sorted(set(re.findall(r"`(\w+)\(session", text))) == sorted(name for _, name in FUNCTIONS)


def test_no_workflow_prints_or_exits() -> None:
    violations = [
        f"{file}:{node.lineno} {name}"
        for folder in (FOLDER, *(Path(tritonstack_sizing.__file__).parent.glob("[lst]*")))
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in _FORBIDDEN
    ]
    assert violations == []


def test_script_destroys_without_a_prompt_and_only_by_name(
    project: Project, account: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tritonstack.operate.shared.stacks._POLL_S", 0)
    edit(project.environment_file("dev"), "1" * 12, account)
    edit(project.environment_file("dev"), "region:", "protected: false\nregion:")
    boto3.client("cloudformation", region_name="eu-west-1").create_stack(
        StackName="tritonstack-dev-foundation", TemplateBody=RETAINING
    )
    session = Session(project)
    plan = plan_destruction(session, "dev")
    assert (plan.stacks, plan.needs_name) == (["tritonstack-dev-foundation"], True)
    for confirm in (None, "prod"):
        with pytest.raises(UsageError, match="--confirm dev"):
            destroy(session, plan, confirm=confirm)
    destruction = destroy(session, plan, confirm="dev")
    assert destruction.stacks == ("tritonstack-dev-foundation",)
    assert [item.id for item in destruction.retained] == ["kept"]
    assert capsys.readouterr() == ("", "")


def test_script_cannot_destroy_a_protected_environment_by_a_dry_run(project: Project, account: str) -> None:
    edit(project.environment_file("dev"), "1" * 12, account)
    cloudformation = boto3.client("cloudformation", region_name="eu-west-1")
    cloudformation.create_stack(StackName="tritonstack-dev-foundation", TemplateBody=RETAINING)
    session = Session(project)
    with pytest.raises(ProtectedError):
        plan_destruction(session, "dev")
    plan = plan_destruction(session, "dev", dry_run=True)
    with pytest.raises(ProtectedError, match="is protected by"):
        destroy(session, plan, confirm="dev")
    assert len(cloudformation.describe_stacks()["Stacks"]) == 1


KINDS_TO_DESTROY = sorted({field.name for field in dataclasses.fields(DestructionPreview)} - {"retained"})


@pytest.mark.parametrize("kind", KINDS_TO_DESTROY)
def test_a_plan_with_any_resource_to_delete_is_not_empty(project: Project, kind: str) -> None:
    def is_empty(**resources: Any) -> bool:
        return DestructionPlan(**resources, target=target, needs_name=False, rejected=None).is_empty

    target: Any = None
    assert is_empty()
    assert is_empty(retained=("one",))
    assert not is_empty(**{kind: ("one",)})


def test_the_json_of_a_status_lists_every_location_not_searched() -> None:
    here, there = Location("1" * 12, "eu-west-1"), Location("2" * 12, "eu-west-1")
    statuses = Statuses(
        (EnvironmentStatus("dev", here.account, here.region, error="denied"),),
        ExpiringEnvironments(not_searched={here: "denied", there: "expired"}),
    )
    assert statuses.not_searched == {here: "denied", there: "expired"}
    assert document(statuses)["not_searched"] == [
        f"{here.account} eu-west-1: denied",
        f"{there.account} eu-west-1: expired",
    ]
