"""Published model names: what the command shows, and what it rejects."""

from __future__ import annotations

import json

import boto3
import pytest

from tests.operate.verify.smoke_environment import DIGESTS, workspace_of
from tests.projects import edit
from tritonstack import Session, targets
from tritonstack.base.errors import TritonstackError
from tritonstack.cli.main import run
from tritonstack.client import ModelNames

MANY = "  shop: {kind: multi-model, models: [minilm, other], instance_type: ml.c7i.xlarge}\n"
ALONE = "  search: {kind: ensemble, model: minilm, instance_type: ml.c7i.xlarge}\n"
TARGETS = {name: f"{name}/{digest}/model.tar.gz" for name, digest in DIGESTS.items()}
PATH = "/tritonstack-dev/targets/shop"


@pytest.fixture
def project(tmp_path, account):
    project = workspace_of(tmp_path, MANY + ALONE).project
    edit(project.environment_file("dev"), "0" * 12, account)
    return project


def publish(names: dict[str, str]) -> None:
    boto3.client("ssm", region_name="us-east-1").put_parameter(
        Name=f"{PATH}/0", Value=json.dumps(names), Type="String", Overwrite=True
    )


def test_published_names_are_shown_and_written(project, tmp_path, capsys):
    publish(TARGETS)
    names = targets(Session(project), "dev").endpoints["shop"]
    assert (names.targets, names.pending) == (TARGETS, {})
    file = tmp_path / "names.json"
    assert run(["--project", str(project.root), "targets", "dev", "shop", "--output", str(file)]) == 0
    assert ModelNames.from_file(file).known() == TARGETS
    output = capsys.readouterr()
    head, *rows = (line.split() for line in output.out.splitlines())
    assert head[-1] == PATH
    assert rows == [["minilm", TARGETS["minilm"]], ["other", TARGETS["other"]]]
    assert f"wrote {file}" in output.err


def test_what_the_lock_names_and_no_deploy_has_published_is_marked(project, capsys):
    publish({"minilm": "minilm/old/model.tar.gz"})
    assert targets(Session(project), "dev").endpoints["shop"].pending == TARGETS
    assert run(["--project", str(project.root), "targets", "dev", "shop"]) == 0
    output = capsys.readouterr().out
    assert "`tritonstack deploy dev`" in output
    assert "`tritonstack deploy dev`" in output


@pytest.mark.parametrize(
    ("endpoint", "output", "message", "code"),
    [
        ("shp", None, "environment 'dev' has no endpoint 'shp'", "TS903"),
        ("search", None, "the endpoint 'search' serves one model", "TS908"),
        (None, "names.json", "a file holds the names of one endpoint", "TS901"),
        ("shop", "names.json", f"no model names are published at {PATH}", "TS543"),
    ],
)
def test_what_has_no_names_is_rejected_and_writes_nothing(project, tmp_path, endpoint, output, message, code):
    file = None if output is None else tmp_path / output
    with pytest.raises(TritonstackError, match=message) as caught:
        targets(Session(project), "dev", endpoint, output=file)
    assert caught.value.code == code
    assert file is None or not file.exists()
