"""Write requirements*.txt from pyproject.toml: every package that each part brings along, at one version.

    requirements.txt         app.py, the stacks and the command line
    requirements-local.txt   the same, and what building models and the embedded cloud need
    requirements-dev.txt     the same, and what tests and lint need
    requirements-checkov.txt checkov alone, for an environment of its own
    containers/builder/      what a build in the account needs; torch in a file of its own, for it comes from
                             another index where there is no GPU

pip resolves; this only asks it and writes down the answer. Run by `make lock`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

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

BUILDER = ROOT / "containers" / "builder"
BUILDER_NEEDS = ("boto3", "pydantic", "PyYAML", "numpy", "tritonclient")
"""Of the project's own dependencies, those that model_build and what it stands on import."""


def resolve(*requirements: str) -> list[str]:
    """`name==version` of everything that these bring along."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    report = subprocess.run(
        [*command, "--report", "-", *requirements], check=True, capture_output=True, text=True
    ).stdout
    packages = [item["metadata"] for item in json.loads(report)["install"]]
    return sorted(
        # A local build such as 2.13.0+cpu is one machine's; the release it is a build of is everybody's.
        f"{package['name'].lower()}=={package['version'].partition('+')[0]}"
        for package in packages
        if package["name"] != "tritonstack"
    )


def builder_pins() -> list[str]:
    """What the builder's image is asked to hold, as pyproject.toml pins it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
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
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    for name, (extras, purpose) in EXTRAS.items():
        write(name, purpose, resolve(f"{ROOT}{extras}"))
    for name, (group, purpose) in GROUPS.items():
        write(name, purpose, resolve(*groups[group]))
    # What is tested here is what builds there.
    packages = resolve(*builder_pins(), f"--constraint={ROOT / 'requirements-local.txt'}")
    torch = [package for package in packages if package.startswith("torch==")]
    write(f"{BUILDER.relative_to(ROOT)}/torch.txt", "PyTorch for the builder's image.", torch)
    others = [package for package in packages if package not in torch]
    write(f"{BUILDER.relative_to(ROOT)}/requirements.txt", "What models are built with.", others)


if __name__ == "__main__":
    main()
