"""Shell completion from the installed console script."""

from __future__ import annotations

import pytest

from tests.packaging.wheels import Installed


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("tritonstack deploy ", "dev local prod"),
        ("tritonstack rollback local ", "double"),
        ("tritonstack build local ", "double"),
    ],
)
def test_names_come_from_a_new_repository(complete: Installed, tmp_path, words, expected):
    assert complete.run("tritonstack", "init", "shop", "--example", "python", cwd=tmp_path).returncode == 0
    variables = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    ended = complete.run(
        "tritonstack", cwd=tmp_path / "shop", _TRITONSTACK_COMPLETE="complete_bash", **variables
    )
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (0, expected.split(), "")


def test_bash_completion_calls_the_console_script(complete: Installed, tmp_path):
    ended = complete.run("tritonstack", cwd=tmp_path, _TRITONSTACK_COMPLETE="source_bash")
    assert ended.returncode == 0
    assert "_TRITONSTACK_COMPLETE=complete_bash $1" in ended.stdout
    assert ended.stdout.rstrip().endswith("-F _tritonstack_completion tritonstack")


def test_completion_does_not_load_the_sdk_or_the_cdk(complete: Installed, tmp_path):
    assert complete.run("tritonstack", "init", "shop", cwd=tmp_path).returncode == 0
    script = str(complete.bin / "tritonstack")
    variables = {
        "COMP_WORDS": "tritonstack deploy ",
        "COMP_CWORD": "2",
        "_TRITONSTACK_COMPLETE": "complete_bash",
    }
    ended = complete.run("python", "-X", "importtime", script, cwd=tmp_path / "shop", **variables)
    assert ended.stdout.split() == ["dev", "local", "prod"]
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "tritonstack.cli.completion" in imported
    assert imported & {"aws_cdk", "boto3", "botocore", "docker", "numpy", "torch"} == set()
