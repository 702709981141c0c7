"""Output and exit codes of `tritonstack destroy`, `audit`, and `reap`, on moto."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.projects import edit
from tritonstack.base.paths import Project
from tritonstack.cli.main import run
from tritonstack.operate.destroy import destroy as destroy_workflow
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.stacks import StackState

TEMPLATE = """\
template: {locks: dev, purpose: tests}
name: ${name}
account: "{account}"
region: eu-west-1
triton_release: "25.04"
removal: destroy
endpoints:
  search: {kind: ensemble, model: minilm, instance_type: ml.c7i.xlarge}
"""
PAST, FUTURE = "2000-01-01T00:00:00Z", "2999-01-01T00:00:00Z"


@pytest.fixture
def here(project, account, monkeypatch):
    """A project in moto's account with an environment and a template."""
    edit(project.environment_file("dev"), "1" * 12, account)
    project.template_file("preview").write_text(TEMPLATE.replace("{account}", account))
    monkeypatch.setattr("tritonstack.operate.shared.stacks._POLL_S", 0)
    return project


def cloud(account: str) -> Cloud:
    return Cloud(account, "eu-west-1", {})


def stand(account: str, name: str, *resources: dict[str, Any], **tags: str) -> None:
    held = resources or ({"Type": "AWS::SNS::Topic"},)
    body = {
        "Description": "tritonstack: for a test",
        "Resources": {f"Thing{number}": resource for number, resource in enumerate(held)},
    }
    cloud(account).client("cloudformation").create_stack(
        StackName=name,
        TemplateBody=json.dumps(body),
        Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
    )


def standing(account: str) -> list[str]:
    stacks = cloud(account).client("cloudformation").describe_stacks()["Stacks"]
    return sorted(stack["StackName"] for stack in stacks)


def tell(project: Project, *arguments: str) -> int:
    return run(["--project", str(project.root), *arguments])


KEPT = {
    "Type": "AWS::S3::Bucket",
    "DeletionPolicy": "RetainExceptOnCreate",
    "Properties": {"BucketName": "kept"},
}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--yes",), 2, "pass --yes --confirm dev"),
        (("--yes", "--confirm", "prod"), 2, "got 'prod'"),
        (("--confirm", "dev"), 2, "pass --yes --confirm dev"),
        ((), 2, "pass --yes --confirm dev"),
        (("--yes", "--confirm", "dev"), 0, "kept (retained by its stack): AWS::S3::Bucket kept"),
    ],
)
def test_retained_data_requires_the_name_with_yes(here, account, capsys, words, code, message):
    edit(here.environment_file("dev"), "region:", "protected: false\nregion:")
    stand(account, "tritonstack-dev-foundation", KEPT)
    assert tell(here, "destroy", "dev", *words) == code
    out, err = capsys.readouterr()
    assert message in err
    assert standing(account) == ([] if code == 0 else ["tritonstack-dev-foundation"])
    if code == 0:
        assert "except 1 retained resources" in out


def test_instance_is_destroyed_by_name_with_yes(here, account, capsys):
    stand(account, "tritonstack-pr-1-foundation")
    stand(account, "tritonstack-pr-10-foundation")
    assert tell(here, "destroy", "preview", "--name", "pr-1") == 2
    assert "requires confirmation" in capsys.readouterr().err
    assert tell(here, "destroy", "preview", "--name", "pr-1", "--yes") == 0
    here.template_file("preview").unlink()
    stand(account, "tritonstack-pr-1-network")
    assert tell(here, "destroy", "preview", "--name", "pr-1", "--yes") == 0
    assert standing(account) == ["tritonstack-pr-10-foundation"]


def test_dry_run_lists_deletions_and_changes_nothing(here, account, capsys):
    stand(account, "tritonstack-pr-1-endpoint-search")
    stand(
        account,
        "tritonstack-pr-1-foundation",
        {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "filled"}},
        {"Type": "AWS::ECR::Repository", "Properties": {"RepositoryName": "own-images"}},
        {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": {"Version": "2012-10-17", "Statement": []}}},
    )
    (key,) = cloud(account).client("kms").list_keys()["Keys"]
    instance = ("preview", "--name", "pr-1", "--dry-run")
    assert tell(here, "destroy", *instance) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[1:]] == [
        "tritonstack-pr-1-endpoint-search",
        "tritonstack-pr-1-foundation",
        "filled",
        "own-images",
        key["KeyId"],
    ]
    assert run(["--project", str(here.root), "--json", "destroy", *instance]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["dry_run"], document["running_builds"], document["requires_name"]) == (True, [], False)
    assert document["rejected"] is None
    assert len(standing(account)) == 2
    assert tell(here, "destroy", "preview", "--name", "pr-1", "--yes") == 0
    capsys.readouterr()
    assert tell(here, "destroy", *instance) == 0
    assert "pr-1: nothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "is protected by"),
        ("removal: destroy\nprotected: true\n", "is protected by"),
        ("protected: false\n", "the deployed stacks of environment 'dev' are protected"),
    ],
)
def test_dry_run_of_a_protected_environment_ends_with_the_error_of_destroy(
    here, account, capsys, monkeypatch, lines, message
):
    edit(here.environment_file("dev"), "region:", f"{lines}region:")
    stand(account, "tritonstack-dev-foundation", KEPT)
    deployed = StackState("tritonstack-dev-foundation", "CREATE_COMPLETE", protected=True)
    # moto has no termination protection
    monkeypatch.setattr(destroy_workflow, "environment_stacks", lambda *_: [deployed])
    assert tell(here, "destroy", "dev", "--yes", "--confirm", "dev") == 2
    error, remedy = capsys.readouterr().err.splitlines()[-2:]
    assert error.startswith("error[TS509]: ")
    assert message in error
    assert tell(here, "destroy", "dev", "--dry-run") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].endswith(" tritonstack-dev-foundation")
    rejected = error.removeprefix("error[TS509]: ")
    assert printed[-2:] == [f"rejected: {rejected} [TS509]", remedy]
    assert tell(here, "--json", "destroy", "dev", "--dry-run") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rejected"] == {
        "code": "TS509",
        "message": rejected,
        "remedy": remedy.removeprefix("  help: "),
    }
    assert document["stacks"] == standing(account) == ["tritonstack-dev-foundation"]


def test_destroy_of_a_protected_environment_reads_nothing(here, capsys, monkeypatch):
    monkeypatch.setattr(Cloud, "client", lambda *_: pytest.fail("read an account"))
    assert tell(here, "destroy", "dev", "--yes", "--confirm", "dev") == 2
    assert "is protected by" in capsys.readouterr().err


def test_environment_without_a_file_is_searched_in_known_accounts(here, account, capsys):
    stand(account, "other-gone-foundation")
    place = ("--account", account, "--region", "eu-west-1", "--prefix", "other")
    assert tell(here, "destroy", "gone", "--yes", *place) == 0
    assert standing(account) == []
    edit(here.environment_file("dev"), account, "1" * 12)
    here.template_file("preview").unlink()
    assert tell(here, "destroy", "gone", "--yes") == 2
    err = capsys.readouterr().err
    assert "'gone'" in err
    assert "--account, --region" in err


@pytest.mark.parametrize("first", ["preview", "no-such-template", "dev"])
def test_an_environment_is_not_destroyed_as_an_instance_of_its_name(here, account, capsys, first):
    """The environment's file protects it; a template of the same name does not."""
    stand(account, "tritonstack-dev-foundation")
    assert tell(here, "destroy", first, "--name", "dev", "--yes", "--confirm", "dev") == 2
    assert "file for 'dev'" in capsys.readouterr().err
    assert standing(account) == ["tritonstack-dev-foundation"]


def test_protection_applies_with_explicit_account_and_region(here, account, capsys):
    stand(account, "tritonstack-dev-foundation")
    place = ("--account", account, "--region", "eu-west-1")
    assert tell(here, "destroy", "dev", "--yes", "--confirm", "dev", *place) == 2
    assert "is protected by" in capsys.readouterr().err
    assert standing(account) == ["tritonstack-dev-foundation"]


def expiring_environments(account: str) -> None:
    stand(account, "tritonstack-old-foundation", owner="ann", expires=PAST)
    stand(account, "tritonstack-older-foundation", owner="bob", expires=PAST)
    stand(account, "tritonstack-new-foundation", owner="ann", expires=FUTURE)
    stand(account, "tritonstack-dev-foundation")


def reaped(project: Project, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = tell(project, "--json", "reap", *words)
    return code, json.loads(capsys.readouterr().out)


def test_reap_deletes_only_expired_environments(here, account, capsys):
    expiring_environments(account)
    code, dry = reaped(here, capsys, "--dry-run")
    assert (code, dry["reaped"]) == (0, [])
    assert [item["base"] for item in dry["expired"]] == ["tritonstack-old", "tritonstack-older"]
    assert len(standing(account)) == 4
    code, facts = reaped(here, capsys)
    assert (code, facts["reaped"]) == (0, ["tritonstack-old", "tritonstack-older"])
    assert [item["base"] for item in facts["kept"]] == ["tritonstack-new"]
    assert standing(account) == ["tritonstack-dev-foundation", "tritonstack-new-foundation"]
