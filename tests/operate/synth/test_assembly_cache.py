"""Cached assemblies are used only while no input of the synthesis has changed."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import aws_cdk as cdk_lib
import pytest

from tests.projects import edit, write_project
from tritonstack.base.paths import Project, find_project
from tritonstack.constructs.builds.builds import BuildSource
from tritonstack.files.loading import load_workspace
from tritonstack.operate.synth import synthesis as assembly_cache
from tritonstack.operate.synth.assembly import Assembly
from tritonstack.operate.synth.cdk import CdkCli
from tritonstack.operate.synth.synthesis import AssemblyCache, synthesis_key

PACKAGE = Path(assembly_cache.__file__).parents[2]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home directory without CDK settings of the person who runs the tests."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("TRITONSTACK_HOME", raising=False)
    return folder


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    write_project(root)
    (root / "models/minilm/weights").mkdir(exist_ok=True)
    (root / "models/minilm/weights/config.json").write_text("{}")
    (root / "cdk.json").write_text(json.dumps({"app": "tritonstack-app"}))
    return Project(root)


def cdk_of(project: Project, **variables: str) -> CdkCli:
    cdk = project.root / "node_modules/aws-cdk/bin/cdk"
    if not cdk.exists():
        cdk.parent.mkdir(parents=True)
        cdk.write_text("")
        (cdk.parents[1] / "package.json").write_text('{"version": "2.1"}')
    return CdkCli(cdk, project.root, {"env": "dev"}, variables)


def key_of(project: Project, **variables: str) -> str | None:
    return synthesis_key(load_workspace(project, "dev"), cdk_of(project, **variables))


def written(name: str, text: str):
    def change(project: Project) -> None:
        file = project.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    return change


def environment(old: str, new: str):
    return lambda project: edit(project.environment_file("dev"), old, new)


CHANGES = {
    "an option of an endpoint": environment("ml.c7i.xlarge", "ml.c7i.2xlarge"),
    "a comment in the environment": environment("name: dev", "name: dev  # first"),
    "the model file": lambda project: edit(project.model_file("minilm"), "embeddings", "vectors"),
    "a file of the model's source": written("models/minilm/weights/config.json", "[]"),
    "a new file of the model's source": written("models/minilm/weights/vocabulary.txt", "a"),
    "another model": written("models/other/notes.txt", "a"),
    "a file of an image": written("containers/builder/Dockerfile", "ARG BASE_IMAGE\nFROM x\n"),
    "the lock": written("environments/dev.lock.yaml", "models: {}\n"),
    "the pinned requirements": written("requirements.txt", "tritonstack==2\n"),
    "a feature flag": written("cdk.json", json.dumps({"app": "tritonstack-app", "context": {"a": True}})),
    "a cached lookup": written("cdk.context.json", "{}"),
    "the version of the CDK CLI": written("node_modules/aws-cdk/package.json", '{"version": "2.2"}'),
    "the person's CDK settings": written("../home/.cdk.json", "{}"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_input_changes_the_key(project, change):
    before = key_of(project)
    assert before is not None
    assert key_of(project) == before
    change(project)
    assert key_of(project) != before


def test_variables_and_context_change_the_key_and_unread_files_do_not(project):
    plain = key_of(project)
    for name in ("README.md", "docs/notes.md", ".tritonstack/cache/x", "environments/other.yaml.orig"):
        written(name, "text")(project)
    assert key_of(project) == plain
    assert key_of(project, TRITONSTACK_HOME="/elsewhere", LANG="C") == plain
    assert key_of(project, CDK_DEFAULT_REGION="eu-west-1") != plain
    assert key_of(project, PYTHONPATH="/elsewhere") != plain
    workspace, cdk = load_workspace(project, "dev"), cdk_of(project)
    other = CdkCli(cdk.executable, cdk.project_root, {"env": "dev", "owner": "Ada"}, {})
    assert len({plain, synthesis_key(workspace, other), synthesis_key(workspace, cdk, ["one"])}) == 3


def test_another_node_changes_the_key_and_a_missing_tool_leaves_it_unknown(project, tmp_path):
    node = tmp_path / "bin/node"
    node.parent.mkdir()
    node.write_text("#!/bin/sh\n")
    node.chmod(0o755)
    keys = {key_of(project), key_of(project, PATH=str(node.parent))}
    node.write_text("#!/bin/sh\n# a newer one\n")
    keys.add(key_of(project, PATH=str(node.parent)))
    assert len(keys) == 3
    assert None not in keys
    assert key_of(project, PATH=str(tmp_path)) is None
    cdk = cdk_of(project)
    (cdk.executable.parents[1] / "package.json").unlink()
    assert synthesis_key(load_workspace(project, "dev"), cdk) is None


def test_the_archive_of_the_build_code_has_only_files_of_the_key(project):
    """Otherwise a kept assembly could have another archive than a new one."""
    before = key_of(project)
    for name in ("notes~", "a.pyc", "b.swp", "venv/big.bin", "__pycache__/c.txt"):
        written(f"models/minilm/{name}", "text")(project)
    stack = cdk_lib.Stack(cdk_lib.App(), "Stack")
    BuildSource(stack, "Source", project=project)
    folder = Path(cdk_lib.App.of(stack).synth().directory)
    packed = {str(file.relative_to(folder)) for file in folder.glob("asset.*/models/**/*") if file.is_file()}
    assert {Path(name).name for name in packed} == {"config.json", "model.safetensors", "model.yaml"}
    assert key_of(project) == before


def test_installed_packages_and_code_change_the_key(project, tmp_path, monkeypatch):
    packages = tmp_path / "packages"
    for name in ("stacks", "model_build", "tritonstack"):
        folders = ("__pycache__", "triton", "client", "cli", "operate")
        ignored = shutil.ignore_patterns(*folders) if name == "tritonstack" else None
        shutil.copytree(PACKAGE.parent / name, packages / name, ignore=ignored)
    monkeypatch.setattr(assembly_cache, "_PACKAGES", packages)
    keys = {key_of(project)}
    for name in ("stacks/endpoint.py", "tritonstack/constructs/removal.py", "model_build/errors.py"):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        with (packages / name).open("a") as file:
            file.write("\n# changed\n")
        keys.add(key_of(project))
    monkeypatch.setattr(assembly_cache, "_packages", lambda: iter(["aws_cdk_lib-2.999.0.dist-info"]))
    keys.add(key_of(project))
    assert len(keys) == 5
    assert None not in keys


@pytest.mark.parametrize(
    ("app", "entry", "is_keyed"),
    [
        ("tritonstack-app", None, True),
        ("python3 app.py", find_project(Path(__file__)).root / "app.py", True),
        ("python3 app.py", "import datetime\n", False),
        ("python3 own.py", None, False),
        ("node bin/app.js", None, False),
    ],
)
def test_only_the_inputs_of_our_own_app_are_known(project, app, entry, is_keyed):
    (project.root / "cdk.json").write_text(json.dumps({"app": app}))
    if entry is not None:
        text = entry.read_text() if isinstance(entry, Path) else entry
        (project.root / "app.py").write_text(text)
    assert (key_of(project) is not None) is is_keyed


@pytest.fixture
def assembly(tmp_path):
    folder = tmp_path / "assembly"
    (folder / "asset.1").mkdir(parents=True)
    (folder / "asset.1/data").write_bytes(b"data")
    (folder / "manifest.json").write_text('{"artifacts": {}}')
    return Assembly(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_cached_assembly_is_copied(project, assembly, tmp_path, monkeypatch):
    cache = AssemblyCache(project)
    monkeypatch.setattr(assembly_cache, "_MOST_BYTES", 10)
    cache.keep("large", assembly)
    monkeypatch.undo()
    (assembly.folder / "manifest.json").write_text('{"artifacts": {}, "missing": [{"key": "vpc"}]}')
    cache.keep("with a pending lookup", assembly)
    assert not (project.cache_dir / "assemblies").exists()
    (assembly.folder / "manifest.json").write_text('{"artifacts": {}}')
    cache.keep("k", assembly)
    copy = cache.find("k", tmp_path / "copy")
    assert contents(copy.folder) == contents(assembly.folder)
    assert cache.find("other", tmp_path / "none") is None


@pytest.mark.parametrize(
    ("name", "content"),
    [("asset.1/data", b""), ("asset.1/more", b""), ("sha256.json", None), ("sha256.json", b"\xff{")],
)
def test_a_damaged_assembly_is_not_used(project, assembly, tmp_path, name, content):
    cache, file = AssemblyCache(project), project.cache_dir / "assemblies" / "k" / name
    cache.keep("k", assembly)
    file.unlink(missing_ok=True)
    if content is not None:
        file.write_bytes(content)
    assert cache.find("k", tmp_path / "copy") is None
    assert list((tmp_path / "copy").iterdir()) == []
    cache.keep("k", assembly)
    assert cache.find("k", tmp_path / "copy") is not None


def test_the_oldest_assemblies_and_unfinished_copies_are_removed(project, assembly, tmp_path):
    cache, folder = AssemblyCache(project), project.cache_dir / "assemblies"
    for number in range(assembly_cache._MOST_KEPT):
        cache.keep(f"k{number}", assembly)
        os.utime(folder / f"k{number}", (number, number))
    (folder / ".new-killed").mkdir()
    assert cache.find("k0", tmp_path / "copy") is not None
    cache.keep("last", assembly)
    kept = {entry.name for entry in folder.iterdir()}
    assert {"k0", "last"} < kept
    assert not {"k1", ".new-killed"} & kept
    assert len(kept) == assembly_cache._MOST_KEPT


def test_two_processes_keep_the_same_assembly(project, assembly, tmp_path):
    code = (
        "import sys; from pathlib import Path; from tritonstack.base.paths import Project;"
        "from tritonstack.operate.synth.assembly import Assembly;"
        "from tritonstack.operate.synth.synthesis import AssemblyCache;"
        "cache, assembly = AssemblyCache(Project(Path(sys.argv[1]))), Assembly(Path(sys.argv[2]));"
        "[cache.keep('k', assembly) for _ in range(20)]"
    )
    python = shutil.which("python") or "python3"
    command = [python, "-c", code, str(project.root), str(assembly.folder)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert AssemblyCache(project).find("k", tmp_path / "copy") is not None
