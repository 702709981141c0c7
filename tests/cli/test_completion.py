"""Shell completion: names from the project's files, requested as a shell does."""

from __future__ import annotations

import inspect
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tritonstack.cli.main import run
from tritonstack.cli.registry import COMMANDS, load_command

NAMES = {"build", "endpoint", "environment", "environments", "model", "models", "target"}
HEAVY = {"aws_cdk", "boto3", "botocore", "docker", "numpy", "pydantic", "torch"}
ENVIRONMENT = "endpoints:\n  search: {kind: single}\n  # ranking:\n  summaries:\n    kind: single\n"


@pytest.fixture
def shop(tmp_path):
    folder = tmp_path / "shop"
    for name, text in {
        "cdk.json": "{}",
        "environments/dev.yaml": ENVIRONMENT,
        "environments/dev.lock.yaml": "models: {}\n",
        "environments/prod.yaml": "endpoints: {}\n",
        "environments/broken.yaml": "endpoints: [\n",
        "environments/preview.template.yaml": "name: ${name}\nendpoints: {search: {model: '${model}'}}\n",
        "models/minilm/model.yaml": "",
        "models/ranker/model.yaml": "",
        "models/unfinished/notes.txt": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def complete(monkeypatch, capsys):
    """Return the completions of the last word, and the rest of the output."""

    def run_completion(words: str, cwd: Path, position: str = "") -> tuple[list[str], str]:
        monkeypatch.chdir(cwd)
        monkeypatch.setenv("_TRITONSTACK_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", position or str(len(words.split(" ")) - 1))
        with suppress(SystemExit):
            run([])
        printed = capsys.readouterr()
        return printed.out.split(), printed.err

    return run_completion


DEPLOYABLE = ["broken", "dev", "prod", "preview"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("d", ["doctor", "down", "dev", "diff", "deploy", "delivery", "destroy"]),
        ("deploy ", DEPLOYABLE),
        ("deploy p", ["prod", "preview"]),
        ("promote dev ", ["broken", "dev", "prod"]),
        ("build dev m", ["minilm"]),
        ("history minilm --env p", ["prod", "preview"]),
        ("rollback dev ", ["search", "summaries"]),
        ("verify --endpoint search dev --endpoint su", ["summaries"]),
        ("invoke dev search --model ", ["minilm", "ranker"]),
        ("init shop --example py", ["python"]),
        ("new ", ["model", "endpoint", "environment"]),
        ("new model x --recipe tr", ["trees", "triton"]),
        ("new endpoint x --environment dev --model m", ["minilm"]),
        ("ci p", ["previous-deploy", "propose-change"]),
        ("rollback broken ", []),
        ("rollback nowhere ", []),
        ("rollback prod ", []),
    ],
)
def test_names_come_from_files(complete, shop, words, expected):
    names, _ = complete(f"tritonstack {words}", shop)
    assert names == expected


@pytest.mark.parametrize("words", ["deploy ", "rollback dev ", "build dev "])
def test_outside_a_project_there_are_no_names_and_no_errors(complete, tmp_path, words):
    assert complete(f"tritonstack {words}", tmp_path) == ([], "")


def test_completion_imports_no_heavy_module():
    code = (
        "import sys; from tritonstack.cli.registry import COMMANDS, load_command\n"
        "for name in COMMANDS: load_command(name, completing=True)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "tritonstack.cli.completion" in done.stdout.split()
    assert set(done.stdout.split()) & HEAVY == set()


def parameters(name: str, *, completing: bool) -> list[tuple[str, ...]]:
    command = load_command(name, completing=completing)
    return [
        (member.name, str(parameter.name), *parameter.opts, str(parameter.nargs), str(parameter.required))
        for member in (command, *getattr(command, "commands", {}).values())
        for parameter in member.params
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_completion_knows_the_parameters_of_each_command(name):
    assert parameters(name, completing=True) == parameters(name, completing=False)


def test_each_parameter_that_takes_a_name_completes_it():
    completers = {
        (command.name, member.name, parameter.name): parameter._custom_shell_complete
        for command in map(load_command, COMMANDS)
        for member in (command, *getattr(command, "commands", {}).values())
        for parameter in member.params
        if parameter.name in NAMES
    }
    assert {parameter for *_, parameter in completers} == NAMES
    assert [where for where, complete in completers.items() if complete is None] == []
    for where, complete in completers.items():
        assert "incomplete" in inspect.signature(complete).parameters, where
