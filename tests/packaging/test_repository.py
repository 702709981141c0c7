"""`tritonstack init` and `doctor`, from the wheels."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from tests.delivery.github.workflows import read_workflow
from tests.packaging.wheels import ROOT, Installed, tracked
from tritonstack.base.paths import Project
from tritonstack.constructs.delivery.pipeline import setup_commands

WORKFLOWS = {
    f".github/workflows/{file.name}"
    for file in (ROOT / ".github" / "workflows").glob("*.yml")
    if file.name not in {"audit.yml", "docs.yml", "release.yml"}  # audit and publish tritonstack itself
}
ACTIONS = {".github/actions/check/action.yml", ".github/actions/setup/action.yml"}
FILES = {
    *WORKFLOWS,
    *ACTIONS,
    ".gitignore",
    "README.md",
    "cdk.json",
    "delivery.yaml",
    "environments/dev.yaml",
    "environments/local.yaml",
    "environments/prod.yaml",
    "requirements-local.lock.txt",
    "requirements-local.txt",
    "requirements.lock.txt",
    "requirements.txt",
}


def files_in(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def created(complete: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new repository without a model."""
    folder = tmp_path_factory.mktemp("new")
    assert complete.run("tritonstack", "init", "shop", cwd=folder).returncode == 0
    return folder / "shop"


@pytest.fixture
def shop(created: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(created, tmp_path / "shop"))


def test_a_new_repository_is_valid(complete: Installed, shop):
    assert files_in(shop) == FILES
    assert json.loads((shop / "cdk.json").read_text())["app"] == "tritonstack-app"
    ended = complete.run("tritonstack", "validate", cwd=shop)
    assert ended.returncode == 0, ended.stderr
    assert "@" not in (shop / "delivery.yaml").read_text() + (shop / "requirements.txt").read_text()


def test_a_new_repository_has_the_files_of_its_example(complete: Installed, tmp_path):
    """test_wheel.py checks that the wheel has those of every example."""
    example = "sentence-embeddings"
    ended = complete.run("tritonstack", "init", "shop", "--example", example, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    folder = tmp_path / "shop"
    own = {name.split("/", 2)[2] for name in tracked(f"examples/{example}")}
    assert files_in(folder) == FILES | own
    source = ROOT / "examples" / example
    assert {name for name in own if (folder / name).read_bytes() != (source / name).read_bytes()} == {
        "README.md"
    }
    tutorial = (source / "README.md").read_text()
    assert (folder / "README.md").read_text().startswith(f"{tutorial}\n## This repository\n")
    assert "/models/*/weights/" in (folder / ".gitignore").read_text().splitlines()


LOCKS = {
    "requirements.lock.txt": ("requirements.txt",),
    "requirements-local.lock.txt": ("requirements-local.txt", "requirements-cuda.txt"),
}


def packages(text: str) -> set[str]:
    """Return each package of a lock: its version, its platforms, and its hashes."""
    return {package for package in re.split(r"\n(?=\S)", text.strip()) if not package.startswith("#")}


@pytest.mark.parametrize("name", LOCKS)
def test_its_locks_have_the_hashes_of_every_package(shop, name):
    """The locks of this repository are for Linux and macOS; a package keeps its condition."""
    locked = packages((shop / name).read_text())
    assert locked == set().union(*(packages((ROOT / lock).read_text()) for lock in LOCKS[name]))
    assert all("--hash=sha256:" in package for package in locked)


def write_fake_wheels(folder: Path, lock: str) -> None:
    """Write an empty wheel for every locked package of this machine, as a tampered index would have."""
    folder.mkdir()
    for line in lock.splitlines():
        if pin := re.match(r"([A-Za-z0-9._-]+)==(\S+)", line):
            name = re.sub(r"[-_.]+", "_", pin[1]).lower()
            info = f"{name}-{pin[2]}.dist-info"
            files = {
                f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {pin[1]}\nVersion: {pin[2]}\n",
                f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
                f"{info}/RECORD": "",
            }
            with zipfile.ZipFile(folder / f"{name}-{pin[2]}-py3-none-any.whl", "w") as wheel:
                for file, text in files.items():
                    wheel.writestr(file, text)


def documented_installs(shop: Path) -> dict[str, list[list[str]]]:
    """Return the pip commands of the README, the workflows, and the pipeline, in order."""
    readme = (shop / "README.md").read_text().split("```")[1]
    action = yaml.safe_load((shop / ".github/actions/setup/action.yml").read_text())["runs"]["steps"]
    texts = {
        "readme": readme,
        "workflows": "\n".join(step["run"] for step in action if "run" in step),
        "pipeline": "\n".join(setup_commands(Project(shop))),
    }
    return {
        name: [
            command.split()
            for line in text.splitlines()
            for command in line.split(" && ")
            if command.startswith("pip ")
        ]
        for name, text in texts.items()
    }


def test_each_documented_install_rejects_other_files_of_a_locked_version(shop, tmp_path):
    installs = documented_installs(shop)
    assert installs.keys() == {"readme", "workflows", "pipeline"}
    venv.create(empty := tmp_path / "empty", symlinks=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", f"--python={empty}/bin/python"]
    for by_hash in {tuple(by_hash) for by_hash, _ in installs.values()}:
        (lock,) = [name for name in LOCKS if name in by_hash]
        if not (index := tmp_path / lock).exists():
            write_fake_wheels(index, (shop / lock).read_text())
        command = [*pip, *by_hash[1:], "--no-index", f"--find-links={index}", "--no-cache-dir"]
        ended = subprocess.run(command, cwd=shop, capture_output=True, text=True, check=False, timeout=120)
        assert ended.returncode == 1
        assert "THESE PACKAGES DO NOT MATCH THE HASHES" in ended.stderr
    for by_hash, by_version in installs.values():
        assert "--require-hashes" in by_hash
        assert {"--no-deps"} <= {*by_hash} & {*by_version}
    assert not list(empty.glob("lib/python3*/site-packages/numpy*"))


def test_the_locks_have_all_that_the_wheels_need(shop):
    """pip installs the wheels with --no-deps, so that it would not report a missing package."""
    extras = {"requirements.lock.txt": {"cli", "cdk"}, "requirements-local.lock.txt": {"cli", "cdk", "build"}}
    for name, chosen in extras.items():
        text = (shop / name).read_text()
        pins = {line.split()[0].lower() for line in text.splitlines() if line[:1].isalnum()}
        names = ["tritonstack", *(["tritonstack-local", "tritonstack-sizing"] if "local" in name else [])]
        needed = [Requirement(need) for wheel in names for need in importlib.metadata.requires(wheel) or []]
        for need in needed:
            applies = need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in chosen)
            if applies and not need.name.startswith("tritonstack"):
                assert f"{need.name}{need.specifier}".lower().replace("_", "-") in {
                    pin.replace("_", "-") for pin in pins
                }


def test_its_workflows_are_those_of_this_repository(shop):
    """They differ in two actions: one installs the tool, the other checks the files."""
    for name in WORKFLOWS:
        assert (shop / name).read_text() == (ROOT / name).read_text()
    for name in ACTIONS:
        own, theirs = ((folder / name).read_text() for folder in (ROOT, shop))
        pins = [dict(re.findall(r"uses: (.*?)@(.*)", text)) for text in (own, theirs)]
        assert pins[0] == pins[1]


def test_workflow_commands_work_in_the_repository(shop):
    folder = shop
    actions = [yaml.safe_load((folder / name).read_text())["runs"] for name in sorted(ACTIONS)]
    jobs = [job for name in WORKFLOWS for job in read_workflow(folder / name)["jobs"].values()]
    steps = [step for job in (*jobs, *actions) for step in job.get("steps", ())]
    programs = {step["run"].split()[0] for step in steps if "run" in step}
    assert programs == {"echo", "gh", "pip", "printf", "sudo", "tritonstack", "unshare"}
    used = {step["uses"] for step in steps if step.get("uses", "").startswith("./")}
    assert used == {"./.github/actions/check", "./.github/actions/setup"}


def test_a_new_git_clone_becomes_a_repository(complete: Installed, tmp_path):
    """A hosting service creates a readme, a license, and a .gitignore: they are kept."""
    clone = tmp_path / "shop"
    clone.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=clone, check=True)
    (clone / "README.md").write_text("# mine\n")
    (clone / "LICENSE").write_text("mine\n")
    (clone / ".gitignore").write_text("*.pyc\n.venv/\n")
    ended = complete.run("tritonstack", "init", ".", "--example", "python", cwd=clone)
    assert ended.returncode == 0, ended.stderr
    assert "; kept .gitignore, README.md; " in ended.stdout
    assert (clone / "README.md").read_text() == "# mine\n"
    ignored = (clone / ".gitignore").read_text().splitlines()
    assert ignored[:2] == ["*.pyc", ".venv/"]
    assert len(ignored) == len(set(ignored))
    assert "/.tritonstack/" in ignored or ".tritonstack/" in ignored
    assert complete.run("tritonstack", "validate", cwd=clone).returncode == 0


def test_a_clone_with_a_readme_gets_the_tutorial_of_an_example(complete: Installed, tmp_path):
    (tmp_path / "README.md").write_text("# mine\n")
    ended = complete.run("tritonstack", "init", ".", "--example", "recommenders", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "then TUTORIAL.md" in ended.stdout
    assert (tmp_path / "README.md").read_text() == "# mine\n"
    tutorial = (ROOT / "examples/recommenders/README.md").read_text()
    assert (tmp_path / "TUTORIAL.md").read_text() == tutorial


def test_doctor_names_each_missing_part(complete: Installed, shop):
    ended = complete.run("tritonstack", "--json", "doctor", cwd=shop, PATH=str(complete.bin))
    assert ended.returncode == 1
    checks = {check["name"]: check for check in json.loads(ended.stdout)["checks"]}
    lacking = {name: check["optional"] for name, check in checks.items() if check["remedy"]}
    assert lacking == {"Node": False, "CDK CLI": False, "Triton server": True, "git": True}
    assert checks["Triton server"]["remedy"] == "run `tritonstack setup`"


def test_pip_accepts_the_requirements(complete: Installed, shop, wheels):
    """One file pins the version, and the other one, which includes it, adds extras."""
    links = [f"--find-links={wheel.parent}" for wheel in wheels.values()]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", f"--python={complete.bin}/python"]
    command = [*pip, "install", "--dry-run", "--no-index", "--no-deps", *links]
    command += ["--requirement", "requirements-local.txt"]
    ended = subprocess.run(command, cwd=shop, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_upgrade_pins_the_running_version_and_changes_nothing_else(complete: Installed, tmp_path):
    assert complete.run("tritonstack", "init", "shop", "--example", "python", cwd=tmp_path).returncode == 0
    shop = tmp_path / "shop"
    new = {name: (shop / name).read_text() for name in files_in(shop)}
    own = "# ours\npandas==3.0.0\n"
    running = importlib.metadata.version("tritonstack")
    old = new["requirements.txt"].replace(f"=={running}", "==0.0.1") + own
    (shop / "requirements.txt").write_text(old)
    local = shop / "requirements-local.txt"
    local.write_text(local.read_text().replace(f"=={running}", "==0.0.1"))
    for name in LOCKS:
        (shop / name).write_text("boto3==1.0.0 \\\n    --hash=sha256:00\nour-package==2.0\n")
    ended = complete.run("tritonstack", "--json", "upgrade", cwd=shop)
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert sorted(result["files"]) == sorted([*LOCKS, "requirements-local.txt", "requirements.txt"])
    assert (result["previous"], result["removed"]) == ("0.0.1", ["our-package"])
    expected = {**new, "requirements.txt": new["requirements.txt"] + own}
    assert {name: (shop / name).read_text() for name in files_in(shop)} == expected
    ended = complete.run("tritonstack", "upgrade", cwd=shop)
    assert ended.stdout.endswith(": up to date\n")


def test_upgrade_reads_any_spelling_of_the_pin_and_names_a_downgrade(complete: Installed, shop):
    requirements = shop / "requirements.txt"
    requirements.write_text("tritonstack [cdk, cli] == 99.1 ; python_version > '3'\n")
    ended = complete.run("tritonstack", "upgrade", cwd=shop)
    version = importlib.metadata.version("tritonstack")
    assert ended.stdout.startswith(f"99.1 -> {version} (a downgrade)")
    assert requirements.read_text() == f"tritonstack [cdk, cli] == {version} ; python_version > '3'\n"
