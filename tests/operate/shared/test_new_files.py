"""`tritonstack new`: commented files that are valid at once, and nothing written otherwise."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.projects import EMPTY_WEIGHTS
from tritonstack import Session
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.base.paths import Project
from tritonstack.base.yaml import parse_document
from tritonstack.cli.main import run
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.loading import ProjectFiles, load_models, load_workspace
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.scaffold.commented_yaml import insert_endpoint
from tritonstack.files.scaffold.model_files import (
    PLACEHOLDER_IMAGE,
    PLACEHOLDERS,
    RECIPES,
    SOURCELESS,
    placeholder_image,
)
from tritonstack.files.scaffold.repository import create_repository
from tritonstack.files.validation import validate_project
from tritonstack.operate.build.build import build
from tritonstack.operate.shared.new_files import new_endpoint, new_environment, new_model

SOURCE = "hf://example/model@0a1b2c3d"
COMMENTED = re.compile(r"^( *)# ([a-z_0-9]+: (?!\{\}|\[\]|<).*)$", re.M)
"""A commented key with a value."""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    create_repository(tmp_path / "shop", example="python")
    return Project(tmp_path / "shop")


def add(project: Project, name: str, kind: str) -> None:
    if kind == "ensemble":
        new_model(project, "second", recipe="python")
        new_model(project, name, recipe=kind, members=("double", "second"))
    else:
        new_model(project, name, recipe=kind, source=None if kind in SOURCELESS else SOURCE)


def contents(project: Project) -> dict[str, bytes]:
    files = (file for file in project.root.rglob("*") if file.is_file())
    return {str(file.relative_to(project.root)): file.read_bytes() for file in files}


@pytest.mark.parametrize("kind", RECIPES)
def test_each_recipe_creates_a_valid_model(project, kind):
    add(project, "fresh", kind)
    assert validate_project(ProjectFiles(project)) == []
    record = load_models(project, "fresh")["fresh"].record
    assert record.recipe.kind == kind
    assert all((project.models_dir / "fresh" / file).is_file() for file in record.own_files)


@pytest.mark.parametrize("kind", RECIPES)
def test_the_comments_describe_every_key_of_the_recipe(project, kind):
    """They come from the specification, so a new key appears by itself."""
    add(project, "fresh", kind)
    text = project.model_file("fresh").read_text()
    plain = " ".join(line.strip().removeprefix("# ") for line in text.splitlines())
    fields = RECIPES[kind].model_fields
    assert fields
    for key, field in fields.items():
        assert re.search(rf"^  (# )?{key}:", text, re.M), key
        assert field.description is None or " ".join(field.description.split()) in plain, key


@pytest.mark.parametrize("kind", RECIPES)
def test_each_commented_key_with_a_value_is_valid_without_the_comment(project, kind):
    add(project, "fresh", kind)
    file = project.model_file("fresh")
    text = file.read_text()
    keys = set(yaml.safe_load(text)["recipe"])
    excluded = {"entry"} & keys and {"file"}  # alternatives of each other
    for comment in COMMENTED.finditer(text):
        indent, line = comment.groups()
        if line.partition(":")[0] not in {*excluded, "input", "format", "precision"}:
            changed = f"{text[: comment.start()]}{indent}{line}{text[comment.end() :]}"
            parse_document(changed, file, ModelSpec)


def test_files_are_copied_as_the_source(project, tmp_path):
    (tmp_path / "fraud.ubj").write_bytes(b"trees")
    new_model(project, "fraud", recipe="trees", copy=tmp_path / "fraud.ubj")
    record = load_models(project, "fraud")["fraud"].record
    assert (record.source, record.recipe.file) == ("file://source", "fraud.ubj")
    assert (project.models_dir / "fraud/source/fraud.ubj").read_bytes() == b"trees"
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text("{}")
    (tmp_path / "checkpoint" / "model.safetensors").write_bytes(EMPTY_WEIGHTS)
    new_model(project, "mood", recipe="text-classification", copy=tmp_path / "checkpoint")
    assert (project.models_dir / "mood/source/config.json").is_file()
    assert validate_project(ProjectFiles(project)) == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("double", {"recipe": "python"}, "models/double"),
        ("Fresh", {"recipe": "python"}, "'Fresh'"),
        ("../fresh", {"recipe": "python"}, "'../fresh'"),
        ("fresh", {"recipe": "pyton"}, "'pyton'"),
        ("fresh", {"recipe": "onnx"}, "needs a source"),
        ("fresh", {"recipe": "onnx", "source": "model.onnx"}, "'model.onnx'"),
        ("fresh", {"recipe": "onnx", "source": SOURCE, "copy": Path("x")}, "exclude each other"),
        ("fresh", {"recipe": "onnx", "copy": Path("none.onnx")}, "none.onnx"),
        ("fresh", {"recipe": "ensemble", "members": ("double",)}, "at least 2"),
        ("fresh", {"recipe": "ensemble", "members": ("double", "nobody")}, "'nobody'"),
        ("fresh", {"recipe": "onnx", "source": SOURCE, "members": ("double",)}, "no steps"),
    ],
)
def test_an_invalid_model_writes_nothing(project, name, options, message):
    before = contents(project)
    with pytest.raises((UsageError, InvalidFilesError), match=re.escape(message)):
        new_model(project, name, **options)
    assert contents(project) == before
    assert {folder.name for folder in project.models_dir.iterdir()} == {"double"}


def test_a_failed_copy_leaves_nothing(project, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "link").symlink_to(tmp_path / "missing")
    with pytest.raises(UsageError, match="source/link"):
        new_model(project, "fresh", recipe="vllm", copy=source)
    assert {folder.name for folder in project.models_dir.iterdir()} == {"double"}


ENVIRONMENTS = {
    "empty": "name: e\nendpoints: {} # none yet\nremoval: destroy\n",
    "absent": "name: e\nremoval: destroy # kept\n",
    "block": (
        "name: e\nendpoints:\n  # the first\n  double:\n    kind: single # one\n"
        "    # scaling: {}\n\n# the end\n"
    ),
    "deep": (
        "endpoints:\n    double:\n        tags: {a: b}\n        text: |\n"
        "          one\n          two\nremoval: destroy\n"
    ),
    "open": "endpoints:\n  double: {kind: single}",
}


@pytest.mark.parametrize("text", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_an_insertion_changes_nothing_else(text):
    changed = insert_endpoint(text, "fresh", "# why\nkind: single\n")
    before, after = yaml.safe_load(text), yaml.safe_load(changed)
    assert after.pop("endpoints") == {**before.pop("endpoints", {}), "fresh": {"kind": "single"}}
    assert after == before
    lines = [line for line in text.replace("endpoints: {}", "endpoints:").splitlines() if line.strip()]
    assert [line for line in changed.splitlines() if line in lines] == lines


def test_the_file_of_an_environment_keeps_line_endings_mode_and_link(project):
    file, target = project.environment_file("local"), project.root / "shared.yaml"
    target.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    target.chmod(0o640)
    file.unlink()
    file.symlink_to(target)
    new_endpoint(project, "fresh", environment="local", models=["double"])
    assert file.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert b"fresh:" in target.read_bytes()
    assert target.read_bytes().count(b"\n") == target.read_bytes().count(b"\r\n")


@pytest.mark.parametrize(
    ("precision", "instance"), [("precision: fp32", "ml.c7i.large"), ("precision: fp16", "ml.g5.xlarge")]
)
def test_kind_and_instance_type_match_the_model(project, precision, instance):
    add(project, "fresh", "text-embedding")
    file = project.model_file("fresh")
    file.write_text(file.read_text().replace("# precision: fp32", precision))
    new_endpoint(project, "fresh", environment="dev", models=["fresh"])
    endpoint = load_workspace(project, "dev").spec.endpoints["fresh"]
    assert (endpoint.kind, endpoint.instance_type) == ("ensemble", instance)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("double", {"environment": "local", "models": ["double"]}, "'double'"),
        ("fresh", {"environment": "locl", "models": ["double"]}, "'locl'"),
        ("fresh", {"environment": "local", "models": ["nobody"]}, "'nobody'"),
        ("Fresh", {"environment": "local", "models": ["double"]}, "'Fresh'"),
        ("fresh", {"environment": "local", "models": ["double"], "instance_type": "ml.none"}, "'ml.none'"),
    ],
)
def test_an_invalid_endpoint_writes_nothing(project, monkeypatch, name, options, message):
    monkeypatch.chdir(project.root)
    before = contents(project)
    with pytest.raises((UsageError, InvalidFilesError)) as raised:
        new_endpoint(project, name, **options)
    assert message in str(raised.value)
    assert contents(project) == before


def test_endpoints_on_one_line_are_unchanged(project):
    file = project.environment_file("local")
    text = file.read_text()
    head = text[: text.index("endpoints:")]
    one_line = f"{head}endpoints: {{double: {{kind: single, model: double, instance_type: ml.c7i.large}}}}\n"
    file.write_text(one_line)
    with pytest.raises(UsageError, match="on one line"):
        new_endpoint(project, "fresh", environment="local", models=["double"])
    assert file.read_text() == one_line


def test_a_new_environment_is_valid_and_commented(project):
    new_environment(project, "staging", account="333333333333", region="eu-west-1", promote_from="dev")
    assert validate_project(ProjectFiles(project)) == []
    text = project.environment_file("staging").read_text()
    spec = parse_document(text, project.environment_file("staging"), EnvironmentSpec).record
    assert (spec.account, spec.region, spec.promotion.source) == ("333333333333", "eu-west-1", "dev")
    assert f"# {EnvironmentSpec.model_fields['alarm_emails'].description}" in text
    new_endpoint(project, "double", environment="staging", models=["double"])
    assert validate_project(ProjectFiles(project)) == []


@pytest.mark.parametrize(
    ("name", "account", "region", "message"),
    [
        ("dev", "333333333333", "eu-west-1", "environments/dev.yaml"),
        ("a-endpoint", "333333333333", "eu-west-1", "'endpoint'"),
        ("staging", "3333", "eu-west-1", "'3333'"),
        ("staging", "333333333333", "eu-west-9", "eu-west-9"),
    ],
)
def test_an_invalid_environment_writes_nothing(project, name, account, region, message):
    before = contents(project)
    with pytest.raises((UsageError, InvalidFilesError), match=re.escape(message)):
        new_environment(project, name, account=account, region=region)
    assert contents(project) == before


ENDPOINT = ("endpoint", "x", "--environment", "local", "--model", "double")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("environment", "x", "--account", "nope", "--region", "eu-west-1"), "--account"),
        (("environment", "x", "--account", "3" * 12, "--region", "nope"), "--region"),
        (
            ("environment", "x", "--account", "3" * 12, "--region", "eu-west-1", "--promote-from", "nope"),
            "--promote-from",
        ),
        (("model", "x", "--recipe", "text-embedding", "--source", "nope"), "--source"),
        ((*ENDPOINT, "--instance-type", "ml.nope"), "--instance-type"),
        ((*ENDPOINT, "--image", "nope"), "--image"),
    ],
)
def test_an_error_names_the_option(project, capsys, arguments, option):
    before = contents(project)
    assert run(["--project", str(project.root), "new", *arguments]) == 2
    error = capsys.readouterr().err
    assert f"{option}: " in error
    assert "nope" in error
    assert ".yaml:" not in error
    assert contents(project) == before


RECIPES_WITH_TESTS = (
    "text-embedding",
    "text-pair-classification",
    "question-answering",
    "image-classification",
)


@pytest.mark.parametrize("recipe", RECIPES_WITH_TESTS)
def test_placeholders_of_new_files_are_noted(project, capsys, recipe):
    new_model(project, "fresh", recipe=recipe, source=f"hf://example/model@{'0a1b2c3d' * 5}")
    command = ["--project", str(project.root), "validate"]
    assert run(command) == 0
    assert "models/fresh/model.yaml:" in (note := capsys.readouterr().err)
    assert "has a placeholder" in note
    file = project.models_dir / "fresh" / "model.yaml"
    for number, text in enumerate(PLACEHOLDERS):
        file.write_text(file.read_text().replace(text, f"Text {number}."))
    if recipe == "image-classification":
        (file.parent / PLACEHOLDER_IMAGE).write_bytes(placeholder_image(33))
    assert run(command) == 0
    assert "has a placeholder" not in capsys.readouterr().err


KILLED = """\
import os, signal, sys
from pathlib import Path
from tritonstack.base.paths import Project
from tritonstack.operate.shared.new_files import adding_model

with adding_model(Project(Path(sys.argv[1])), "fresh") as staged:
    (staged / "model.yaml").write_text("name: fresh")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_import_leaves_nothing_for_the_next_command(project):
    def hidden() -> list[str]:
        return [entry.name for entry in project.models_dir.iterdir() if entry.name.startswith(".")]

    def build_nothing() -> None:
        with pytest.raises(UsageError, match="absent"):
            build(Session(project), "absent", publish=False)

    for following in (build_nothing, lambda: new_model(project, "fresh", recipe="python")):
        killed = subprocess.run([sys.executable, "-c", KILLED, str(project.root)], check=False)
        assert killed.returncode == -signal.SIGKILL
        assert len(hidden()) == 1
        assert validate_project(ProjectFiles(project)) == []  # unfinished models are ignored
        following()
        assert hidden() == []


KILLED_INIT = """\
import os, signal, sys
from pathlib import Path
from tritonstack.files.scaffold import repository

write, written = repository._write_new, []

def write_some(file, content):
    written.append(write(file, content))
    if len(written) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

repository._write_new = write_some
repository.create_repository(Path(sys.argv[1]), example="python")
"""


def test_a_killed_init_can_be_repeated(tmp_path):
    folder = tmp_path / "shop"
    killed = subprocess.run([sys.executable, "-c", KILLED_INIT, str(folder)], check=False)
    assert killed.returncode == -signal.SIGKILL
    (staged,) = tmp_path.iterdir()
    assert len([file for file in staged.rglob("*") if file.is_file()]) == 3
    create_repository(folder, example="python")
    assert [*tmp_path.iterdir()] == [folder]
    assert folder.stat().st_mode & 0o777 == 0o777 & ~_umask()
    assert validate_project(ProjectFiles(Project(folder))) == []


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_existing_list_of_ignored_files_keeps_its_lines_and_line_ends(tmp_path, newline):
    ignored = tmp_path / ".gitignore"
    ignored.write_bytes(f"*.log{newline}".encode())
    create_repository(tmp_path, example="python")
    lines = ignored.read_bytes().decode().splitlines(keepends=True)
    assert lines[0] == f"*.log{newline}"
    assert len(lines) > 3
    assert {line.removeprefix(line.rstrip("\r\n")) for line in lines} == {newline}
