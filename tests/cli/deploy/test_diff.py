"""Output and exit codes of `tritonstack diff`, with a stand-in for the CDK CLI."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.cli.conftest import STACK, endpoint_template
from tests.projects import edit
from tritonstack.base.paths import Project
from tritonstack.cli.main import run
from tritonstack.files.loading import sample_instance
from tritonstack.operate.shared.aws import Cloud


def deployed(monkeypatch: pytest.MonkeyPatch, template: dict[str, Any]) -> None:
    monkeypatch.setattr(
        "tritonstack.operate.deploy.changes.deployed_templates", lambda *_, **__: {STACK: template}
    )


def said(
    capsys: pytest.CaptureFixture[str], project: Project, *arguments: str, options: Sequence[str] = ()
) -> tuple[int, str]:
    code = run(["--project", str(project.root), *arguments, "diff", "dev", *options])
    return code, capsys.readouterr().out


def words(text: str) -> list[str]:
    """Return the lines of a table with single blanks."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_diff_is_a_summary_and_tables(built, capsys):
    code, out = said(capsys, built)
    assert code == 0
    assert words(out)[1:] == [
        "",
        "change stack what",
        f"+ create {STACK} endpoint search",
        "",
        "model target artifact cosine p99 built by",
        "+ minilm cpu abababababab (new)",
    ]


def test_rejected_change_is_reported_with_exit_code_1(built, capsys, monkeypatch):
    deployed(monkeypatch, endpoint_template(AsyncInferenceConfig={}))
    code, out = said(capsys, built)
    assert code == 1
    assert f"✗ rejected {STACK} rejected: the endpoint" in "\n".join(words(out))
    assert any(line.startswith("help: deploy") for line in words(out))
    assert "`tritonstack deploy dev`" in out


def test_json_output_is_one_document(built, capsys, monkeypatch):
    deployed(monkeypatch, endpoint_template(KmsKeyId="other"))
    code, out = said(capsys, built, "--json")
    result = json.loads(out)
    assert (code, result["rejected"], result["model_prefixes"]) == (0, False, {})
    assert [(plan["stack"], plan["action"], plan["reasons"]) for plan in result["stacks"]] == [
        (STACK, "roll-out", ["KmsKeyId"])
    ]
    assert "Stack search" in result["diff"]


def test_reading_creates_nothing(built, capsys, account):
    said(capsys, built)
    cloud = Cloud(account, "eu-west-1", {})
    assert cloud.client("cloudformation").describe_stacks()["Stacks"] == []
    assert cloud.client("s3").list_buckets()["Buckets"] == []


def test_a_comment_for_a_pull_request_is_found_again_by_its_first_line(built, capsys, monkeypatch):
    deployed(monkeypatch, endpoint_template(KmsKeyId="other"))
    code = run(["--project", str(built.root), "diff", "dev", "--markdown"])
    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert lines[0] == "<!-- tritonstack diff dev -->"
    assert any(line.startswith("**This deployment: 1 stack") for line in lines)
    assert "- minilm (cpu): abababababab, new" in lines
    assert any(line.startswith(f"- {STACK}: rollout of") for line in lines)
    folded = lines[lines.index("<details><summary>The CDK's own diff</summary>") :]
    assert folded[1:3] == ["", "```"]
    assert folded[4:] == ["```", "", "</details>"]


@pytest.fixture
def retained(built, account):
    """A retained log group of an earlier environment that blocks a new one."""
    log = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/kept"}}
    template = endpoint_template()
    template["Resources"]["Log"] = log
    (built.root / "assembly" / "x.json").write_text(json.dumps(template))
    Cloud(account, "eu-west-1", {}).client("logs").create_log_group(logGroupName="/kept")
    return built


TAKEN = "rejected: AWS::Logs::LogGroup Log must be created, but /kept already exists outside this stack"


def test_taken_names_are_rejected(retained, account, capsys):
    code, out = said(capsys, retained)
    assert code == 1
    lines = words(out)
    (row,) = (number for number, line in enumerate(lines) if line.endswith(TAKEN))
    assert lines[row].startswith(f"✗ rejected {STACK}")
    assert lines[row + 1].startswith("help: an earlier")
    assert "`tritonstack deploy dev` rejects" in out
    _, out = said(capsys, retained, "--json")
    (stack,) = json.loads(out)["stacks"]
    assert [taken["name"] for taken in stack["taken_names"]] == ["/kept"]
    Cloud(account, "eu-west-1", {}).client("logs").delete_log_group(logGroupName="/kept")
    assert said(capsys, retained)[0] == 0


def test_a_deploy_rejects_with_the_same_message_before_it_changes_anything(retained, capsys, monkeypatch):
    monkeypatch.setattr("tritonstack.operate.deploy.deploy.missing_artifacts", lambda *_, **__: [])
    for change in ("bootstrap_account", "fill_model_prefixes"):
        monkeypatch.setattr(
            f"tritonstack.operate.deploy.deploy.{change}", lambda *_: pytest.fail("something was changed")
        )
    assert run(["--project", str(retained.root), "deploy", "dev", "--bootstrap"]) == 1
    assert f"{STACK}: {TAKEN}" in capsys.readouterr().err


def test_long_lines_are_cut_and_comments_have_an_end(built, capsys):
    edit(
        built.root / "node_modules" / ".bin" / "cdk",
        "echo 'Stack search: what the CDK says'",
        "i=0; while [ $i -lt 700 ]; do printf '%0300d\\n' $i; i=$((i+1)); done",
    )
    run(["--project", str(built.root), "diff", "dev", "--markdown"])
    comment = capsys.readouterr().out
    assert len(comment) < 65_536
    assert "`tritonstack diff dev`" in comment
    assert max(map(len, comment.splitlines())) < 300
    assert comment.rstrip().endswith("</details>")


def test_an_instance_is_deployed_by_its_context_arguments(built, account, capsys, monkeypatch):
    text = built.environment_file("dev").read_text().replace("name: dev", "name: ${name}")
    head = "template: {locks: dev, purpose: tests}\nremoval: destroy\n"
    built.template_file("preview").write_text(head + text)
    instance = sample_instance("preview", "pr-1")
    monkeypatch.setattr("tritonstack.operate.shared.session.read_instance", lambda *_: instance)
    assert run(["--project", str(built.root), "diff", "preview", "--name", "pr-1"]) == 0
    assert "preview --name pr-1: 1" in capsys.readouterr().out
    assert run(["--project", str(built.root), "diff", "preview", "--name", "pr-1", "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "<!-- tritonstack diff pr-1 -->"
    assert "--name pr-1`" in lines[1]
