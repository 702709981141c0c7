"""Write requirements*.txt from pyproject.toml: every package that each part brings along, at one version.

    requirements.txt         app.py, the stacks and the command line
    requirements-local.txt   the same, and what building models and the embedded cloud need
    requirements-dev.txt     the same, and what tests and lint need
    requirements-checkov.txt checkov alone, for an environment of its own
    requirements-node.txt    Node for the CDK
    containers/builder/      what a build in the account needs; torch in a file of its own, for it comes from
                             another index where there is no GPU
    containers/serving/      what Python models find in the image of the project's own

pip resolves; this only asks it and writes down the answer. What goes into an image bears the hashes of the
wheels for every Python that the image may have. Run by `make lock`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = {
    "requirements.txt": ("", "What app.py, the stacks and the command line need."),
    "requirements-local.txt": (
        "[build,local]",
        "To build models and run the embedded cloud on this machine.",
    ),
    "requirements-dev.txt": ("[build,local,sagemaker,dev]", "To test and to lint."),
}
GROUPS = {
    "requirements-checkov.txt": (
        "checkov",
        "checkov, which names the exact boto3 it runs with and so stands in an environment of its own.",
    ),
}

IMAGE_PLATFORMS = tuple(f"manylinux_2_{minor}_x86_64" for minor in (28, 27, 17, 12))
BUILDER = ROOT / "containers" / "builder"
BUILDER_PYTHONS = ("3.11", "3.12")
"""Those that containers/builder/Dockerfile makes its environment with."""
SERVING = ROOT / "containers" / "serving"
SERVING_PYTHONS = ("3.10", "3.11", "3.12")
"""Those of SageMaker's Triton images, and the one that plays them on most machines."""
BUILDER_NEEDS = ("boto3", "pydantic", "PyYAML", "numpy", "tritonclient")
"""Of the project's own dependencies, those that model_build and what it stands on import."""


def asked(*arguments: str) -> list[dict[str, Any]]:
    """What pip would install."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    report = subprocess.run(
        [*command, "--report", "-", *arguments], check=True, capture_output=True, text=True
    ).stdout
    items: list[dict[str, Any]] = json.loads(report)["install"]
    return items


def pin_of(item: dict[str, Any]) -> str:
    """`name==version` of one package."""
    package = item["metadata"]
    # A local build such as 2.13.0+cpu is one machine's; the release it is a build of is everybody's.
    return f"{package['name'].lower()}=={package['version'].partition('+')[0]}"


def resolve(*requirements: str) -> list[str]:
    """`name==version` of everything that these bring along."""
    pins = (pin_of(item) for item in asked(*requirements))
    return sorted(pin for pin in pins if not pin.startswith("tritonstack=="))


def hashed(packages: list[str], pythons: tuple[str, ...]) -> list[str]:
    """The same with the hashes of the wheels that these Pythons install: no other file will do."""
    hashes: dict[str, set[str]] = {package: set() for package in packages}
    platforms = [f"--platform={platform}" for platform in IMAGE_PLATFORMS]
    with tempfile.TemporaryDirectory() as folder:
        for python in pythons:
            options = ["--no-deps", "--only-binary=:all:", f"--target={folder}", f"--python-version={python}"]
            for item in asked(*options, *platforms, *packages):
                found = item["download_info"]["archive_info"]["hashes"]["sha256"]
                hashes[pin_of(item)].add(f"--hash=sha256:{found}")
    return [" \\\n    ".join([package, *sorted(found)]) for package, found in hashes.items()]


def project_file() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def builder_pins() -> list[str]:
    """What the builder's image is asked to hold, as pyproject.toml pins it."""
    project = project_file()["project"]
    needed = [
        pin for pin in project["dependencies"] if pin.partition("==")[0].partition("[")[0] in BUILDER_NEEDS
    ]
    return [*needed, *project["optional-dependencies"]["build"]]


def write(name: str, purpose: str, packages: list[str]) -> None:
    """One file, with a first line that says what it is for."""
    lines = [f"# {purpose} Written by `make lock` from pyproject.toml; do not edit.", *packages]
    (ROOT / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{name}: {len(packages)} packages")


def main() -> None:
    """Write every file."""
    groups = project_file()["dependency-groups"]
    for name, (extras, purpose) in EXTRAS.items():
        write(name, purpose, resolve(f"{ROOT}{extras}"))
    for name, (group, purpose) in GROUPS.items():
        write(name, purpose, resolve(*groups[group]))
    write(
        "requirements-node.txt",
        "Node for the CDK, where the machine has none that fits.",
        hashed(groups["node"], ("3.11",)),
    )
    # What is tested here is what builds there.
    packages = resolve(*builder_pins(), f"--constraint={ROOT / 'requirements-local.txt'}")
    torch = [package for package in packages if package.startswith("torch==")]
    # Its wheels differ between the index for CPUs and the one for GPUs, and so do their hashes.
    write(f"{BUILDER.relative_to(ROOT)}/torch.txt", "PyTorch for the builder's image.", torch)
    others = [package for package in packages if package not in torch]
    write(
        f"{BUILDER.relative_to(ROOT)}/requirements.txt",
        "What models are built with.",
        hashed(others, BUILDER_PYTHONS),
    )
    write(
        f"{SERVING.relative_to(ROOT)}/requirements.txt",
        "What Python models find in the image beside what SageMaker's own has.",
        hashed(groups["serving"], SERVING_PYTHONS),
    )


if __name__ == "__main__":
    main()
