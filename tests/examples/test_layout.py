"""Every example has the files, the commands, and the test that examples/README.md promises."""

import ast
import re
from pathlib import Path

import pytest

from tools.examples import GALLERY, documented_commands, example_names
from tritonstack.base.yaml import load_document
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.scaffold import repository

EXAMPLES = sorted(folder.name for folder in GALLERY.iterdir() if folder.is_dir())
COMMANDS = (
    "python train.py",
    "tritonstack validate",
    "tritonstack build local --no-publish",
    'eval "$(tritonstack up --detach --shell)"',
    "tritonstack deploy local --bootstrap",
    "python compare.py",
    "tritonstack destroy local --yes",
    "tritonstack audit local --gone",
    "tritonstack down",
)


def test_every_folder_is_an_example():
    assert example_names() == EXAMPLES
    assert set(repository.examples()) == {*EXAMPLES, "python"}


def test_the_gallery_lists_every_example():
    rows = re.findall(r"^\| \[(.*)\]\((.*)\) \|", (GALLERY / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == [(name, f"{name}/README.md") for name in EXAMPLES]


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_has_the_files_of_an_example(name):
    files = ("train.py", "compare.py", "environments/local.yaml", "environments/dev-gpu.yaml")
    assert [file for file in files if not (GALLERY / name / file).is_file()] == []
    for environment in ("local", "dev-gpu"):
        spec = load_document(GALLERY / name / f"environments/{environment}.yaml", EnvironmentSpec).record
        assert spec.endpoints


@pytest.mark.parametrize("name", EXAMPLES)
def test_its_readme_goes_from_training_to_an_empty_account(name):
    commands = documented_commands((GALLERY / name / "README.md").read_text())
    assert [command for command in commands if command in COMMANDS] == list(COMMANDS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_its_links_stay_in_its_folder(name):
    links = re.findall(r"\]\(([^)#]+)", (GALLERY / name / "README.md").read_text())
    assert [link for link in links if "://" not in link and ".." in link] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_soak_test_runs_it(name):
    """Each example has a file of its own, because a file runs in one worker."""
    file = Path(__file__).parent / f"test_{name.replace('-', '_')}.py"
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    names = [
        call.args[0].value for call in calls if isinstance(call.func, ast.Name) and call.func.id == "passed"
    ]
    assert names == [name]
