"""Every pip installation in the project checks hashes."""

import re
from pathlib import Path

import pytest

from tritonstack.base.paths import find_project

ROOT = find_project(Path(__file__).parent).root
LOCKS = sorted(
    file.relative_to(ROOT)
    for pattern in (
        "requirements*.txt",
        "containers/*/*.txt",
        "tritonstack/triton/requirements*.txt",
        "model_build/environments/requirements*.txt",
    )
    for file in ROOT.glob(pattern)
)
INSTALLERS = sorted(
    file.relative_to(ROOT)
    for pattern in (
        "Makefile",
        ".github/**/*.yml",
        "containers/*/Dockerfile",
        "containers/*.sh",
        "stacks/**/*.py",
        "tritonstack/triton/*.py",
        "tools/*.py",
    )
    for file in ROOT.glob(pattern)
)
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def statements(file: Path) -> list[str]:
    """Return the lines of a file without comments; continued lines are joined."""
    text = (ROOT / file).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("file", LOCKS, ids=str)
def test_every_package_has_a_version_and_hashes(file):
    packages = statements(file)
    assert packages
    for package in packages:
        assert re.match(r"[A-Za-z0-9._-]+==[^ ]+ ", package), package
        assert HASH.findall(package), package
        # Beside version and hashes there may be a marker, and nothing else.
        rest = HASH.sub("", package).partition("==")[2].split(maxsplit=1)[1:]
        assert not rest or rest[0].startswith(";"), package


def test_known_files_are_included():
    assert {str(file) for file in LOCKS} >= {
        "containers/builder/cuda.txt",
        "containers/builder/requirements.txt",
        "containers/builder/torch.txt",
        "containers/serving/requirements.txt",
        "model_build/environments/requirements-timm.txt",
        "requirements-checkov.txt",
        "requirements-cuda.txt",
        "requirements-dev.txt",
        "requirements-local.txt",
        "requirements.txt",
        "tritonstack/triton/requirements-embedded.txt",
    }


def expanded(file: Path) -> list[str]:
    """Return the statements of a file, with the variables of a Makefile expanded."""
    variables = dict(re.findall(r"^([A-Z]+) := (.*)$", (ROOT / file).read_text(), flags=re.M))
    lines = statements(file)
    for name, value in variables.items():
        lines = [line.replace(f"$({name})", value) for line in lines if not line.startswith(f"{name} :=")]
    return lines


def installs(line: str) -> list[str]:
    """Return the `pip install` calls in a line."""
    return [part for part in re.split(r"&&|;", line) if re.search(r"pip\b.*\binstall\b", part)]


def test_pip_installs_nothing_without_its_hash():
    """Except the project itself, without its dependencies."""
    calls = [
        (str(file), call)
        for file in INSTALLERS
        if file.suffix != ".py"
        for line in expanded(file)
        for call in installs(line)
        if "--dry-run" not in call and not call.strip().startswith("PIP")
    ]
    assert {file for file, call in calls if "--require-hashes" in call} >= {"Makefile"}
    allowed = ("--no-deps --editable .", "--require-hashes")
    assert [(file, call) for file, call in calls if not any(option in call for option in allowed)] == []


def test_the_embedded_server_is_installed_with_hashes():
    text = (ROOT / "tritonstack" / "triton" / "install.py").read_text()
    (call,) = re.findall(r"options = \[(.*?)\]", text, flags=re.S)
    assert '"--require-hashes"' in call


@pytest.mark.parametrize("name", ["requirements-local.txt", "containers/builder/torch.txt"])
def test_pytorch_is_known_from_both_of_its_indexes(name):
    """Its CPU builds have their own index; PyPI has the CUDA builds."""
    (torch,) = [line for line in statements(Path(name)) if line.startswith("torch==")]
    cpu = {
        "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
        "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",
    }
    hashes = {option.removeprefix("--hash=sha256:") for option in HASH.findall(torch)}
    assert hashes > cpu
    assert len(hashes) >= 5
