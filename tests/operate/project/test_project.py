"""Validate a project, and list its quotas and its delivery order, from a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.git import Repository
from tests.projects import edit
from tritonstack import Session, delivery, quotas, validate
from tritonstack.base.error_kinds import LockEntryError
from tritonstack.base.errors import UsageError
from tritonstack.base.paths import Project
from tritonstack.base.results import document
from tritonstack.operate.shared.session import NullReporter


class Notes(NullReporter):
    """Keeps the reported lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


def test_a_valid_project_returns_what_was_checked(project: Project) -> None:
    notes = Notes()
    result = validate(Session(project, notes))
    assert (result.environments, result.templates, result.models) == (("dev",), (), ("minilm",))
    (unbuilt,) = result.unbuilt
    assert "dev.lock.yaml" in unbuilt
    assert (result.next_commands, result.not_deployable) == (("tritonstack build dev",), ("dev",))
    assert notes.lines == []


def test_locks_are_completed_in_the_order_of_promotions(project: Project) -> None:
    """Names in alphabetical order would promote before the source has an artifact."""
    text = project.environment_file("dev").read_text()
    for name, source in (("a", "b"), ("b", "dev")):
        renamed = text.replace("name: dev", f"name: {name}")
        project.environment_file(name).write_text(f"{renamed}promotion: {{source: {source}}}\n")
    edit(project.environment_file("dev"), "111111111111", "000000000000")
    build, *promotions = validate(Session(project)).next_commands
    assert build.startswith("tritonstack build dev ")
    assert promotions == ["tritonstack promote dev b", "tritonstack promote b a"]


def test_instance_without_a_template_is_a_usage_error(project: Project) -> None:
    with pytest.raises(UsageError, match="--name needs a template"):
        validate(Session(project), instance="pr-1")


def test_unreachable_account_is_not_reported_as_valid(project: Project) -> None:
    edit(project.environment_file("dev"), "1" * 12, "0" * 12)
    with pytest.raises(LockEntryError, match=r"dev .*not running"):
        validate(Session(project), "dev", online=True)


def test_quotas_are_those_of_the_environments_account_and_region(project: Project) -> None:
    result = quotas(Session(project), "dev")
    assert (result.account, result.region) == ("1" * 12, "eu-west-1")
    (instances,) = [quota for quota in result.quotas if quota.name == "ml.c7i.xlarge for endpoint usage"]
    assert instances.value > 0
    assert (instances.code, instances.account_value, instances.request) == (None, None, None)
    assert result.unread


DELIVERY = "repository: example/project\nenvironments: [{name: dev}, {name: prod}]\n"


def test_delivery_names_the_environments_that_a_commit_affects(project: Project, tmp_path: Path) -> None:
    text = project.environment_file("dev").read_text()
    project.environment_file("prod").write_text(text.replace("name: dev", "name: prod"))
    project.delivery_file.write_text(DELIVERY)
    Repository(project.root).commit("all")
    session = Session(project)
    assert delivery(session).affected == ["dev", "prod"]
    assert delivery(session, since="HEAD").affected == ["dev"]
    edit(project.environment_file("prod"), "endpoints:", "# changed\nendpoints:")
    plan = delivery(session, since="HEAD")
    assert plan.affected == ["dev", "prod"]
    assert document(plan)["stages"]["prod"]["affected"]
