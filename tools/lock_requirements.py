"""Write requirements*.txt from pyproject.toml: every package of each part, at one version.

    requirements.txt         app.py, the stacks, and the command line
    requirements-local.txt   the same, and what builds and the local cloud need
    requirements-dev.txt     the same, and what tests and lint need
    requirements-cuda.txt    the CUDA libraries of PyPI's PyTorch; its build for CPUs needs none of them
    requirements-torch-cpu.txt
                             PyTorch's CPU build, installed first if available
    requirements-checkov.txt checkov, for its own virtual environment
    requirements-node.txt    Node for the CDK
    requirements-audit.txt   pip-audit, for the workflow `audit`
    containers/builder/      what builds in the account need; torch and CUDA have their own files, because
                             torch comes from another index without a GPU
    containers/serving/      what Python models find in the project's own image
    model_build/environments/requirements-timm.txt
                             what builds of timm models fetch
    tritonstack/triton/          the local server, whose packages and versions are in the file itself

uv resolves for every Python and platform at once; this writes the result with the hashes of all files of a
version, so that pip installs no other file. A version that a file already has is kept as long as
pyproject.toml allows it. Run by `make lock`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PYTHON = "3.11"
"""The oldest Python of the project."""
SERVING_PYTHON = "3.10"
"""The oldest Python of SageMaker's Triton images."""
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "requirements.txt": (("cli", "cdk"), "Packages for app.py, the stacks, and the command line."),
    "requirements-local.txt": (
        ("cli", "cdk", "build", "local"),
        "The same, plus packages to build models and run the local cloud.",
    ),
    "requirements-dev.txt": (
        ("cli", "cdk", "build", "local", "sagemaker", "dev"),
        "The same, plus packages for tests and lint.",
    ),
}
CHECKOV = "checkov, in its own environment because it pins boto3."
CPU_TORCH = {
    "torch==2.13.0": (
        "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
        "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",
        "3fbf9c9d1f3c10c2d59d04aca426dee9ccc6ceb32d255c61e93acc3b4f75fae6",
    )
}
"""The hashes of PyTorch's builds for CPUs, for Python 3.11 to 3.13 on Linux and x86-64. Their own index,
https://download.pytorch.org/whl/cpu/torch/, shows the hashes."""
CUDA = re.compile(r"(nvidia-|cuda-|triton==)")
"""Packages that only PyPI's PyTorch needs, not its CPU build."""
EMBEDDED = ROOT / "tritonstack" / "triton" / "requirements-embedded.txt"
TIMM = "model_build/environments/requirements-timm.txt"
BUILDER = "containers/builder"
BUILDER_NEEDS = ("boto3", "pydantic", "PyYAML", "numpy", "tritonclient")
"""Dependencies of the project that model_build and the packages below it import."""


def compiled(file: str, needs: Iterable[str], *arguments: str, python: str = PYTHON) -> list[str]:
    """Return every package that these need, with its hashes; keep the versions of the file if possible."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes"]
    options = ["--no-header", "--no-annotate", f"--python-version={python}"]
    with tempfile.TemporaryDirectory() as folder:
        source, written = Path(folder, "wanted.in"), Path(folder, "written.txt")
        source.write_text("\n".join(needs), encoding="utf-8")
        if (ROOT / file).is_file():
            written.write_text((ROOT / file).read_text(encoding="utf-8"), encoding="utf-8")
        # Without local settings, the result is the same on every machine.
        environment = {
            name: text for name, text in os.environ.items() if not name.startswith(("PIP_", "UV_"))
        }
        subprocess.run(
            [*command, *options, *arguments, f"--output-file={written}", str(source)],
            check=True,
            env=environment,
        )
        text = written.read_text(encoding="utf-8")
    return [_with_cpu_build(package) for package in re.split(r"\n(?=\S)", text.strip())]


def _with_cpu_build(package: str) -> str:
    pin, *hashes = package.split(" \\\n    --hash=sha256:")
    name = pin.split()[0]
    if not name.startswith("torch=="):
        return package
    if name not in CPU_TORCH:
        sys.exit(f"{name}: add the hashes of its builds for CPUs to CPU_TORCH in {Path(__file__).name}")
    return " \\\n    --hash=sha256:".join([pin, *sorted({*hashes, *CPU_TORCH[name]})])


def project_file() -> dict[str, Any]:
    """Return the content of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def builder_pins(project: dict[str, Any]) -> list[str]:
    """Return the pins of the builder's image from pyproject.toml."""
    needed = [
        pin
        for pin in pins_of(project, ("cli", "build"))
        if pin.partition("==")[0].partition("[")[0] in BUILDER_NEEDS
    ]
    return list(dict.fromkeys([*needed, *pins_of(project, ("build",), base=False)]))


def pins_of(project: dict[str, Any], extras: Iterable[str], *, base: bool = True) -> list[str]:
    """Return the pins of these extras, without the project's own distributions."""
    lists = [project["dependencies"]] if base else []
    lists += [project["optional-dependencies"][extra] for extra in extras]
    return [pin for pins in lists for pin in pins if not pin.startswith("tritonstack")]


def write(name: str, purpose: str, packages: Sequence[str]) -> None:
    """Write one file, with its purpose in the first line."""
    lines = [f"# {purpose} Written by `make lock` from pyproject.toml; do not edit.", *packages]
    (ROOT / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{name}: {len(packages)} packages")


def write_embedded() -> None:
    """Write the hashes of the local server's packages, and keep the comments of each."""
    text = re.sub(r" \\\n\s+--hash=\S+", "", EMBEDDED.read_text(encoding="utf-8"))
    pins = [line for line in text.splitlines() if "==" in line and not line.startswith("#")]
    hashed = {package.split()[0]: package for package in compiled("", pins, "--no-deps")}
    lines = [hashed.get(line, line) for line in text.splitlines()]
    EMBEDDED.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Write every file."""
    file = project_file()
    project, groups = file["project"], file["dependency-groups"]
    cuda: list[str] = []
    for name, (extras, purpose) in EXTRAS.items():
        packages = compiled(name, pins_of(project, extras))
        cuda = [package for package in packages if CUDA.match(package)]
        write(name, purpose, [package for package in packages if package not in cuda])
    # pip prefers PyPI's build, so this file allows only the CPU build.
    cpu = [" \\\n    --hash=sha256:".join([pin, *sorted(hashes)]) for pin, hashes in CPU_TORCH.items()]
    write("requirements-torch-cpu.txt", "PyTorch for CPUs, from its own index.", cpu)
    for name in ("requirements-cuda.txt", f"{BUILDER}/cuda.txt"):
        write(name, "The CUDA libraries of PyPI's PyTorch.", cuda)
    write("requirements-checkov.txt", CHECKOV, compiled("requirements-checkov.txt", groups["checkov"]))
    write(
        "requirements-node.txt",
        "Node for the CDK, for machines without a supported one.",
        compiled("requirements-node.txt", groups["node"]),
    )
    audit = "requirements-audit.txt"
    write(audit, "pip-audit, for the workflow `audit`.", compiled(audit, groups["audit"]))
    # The builder gets the versions that are tested here.
    tested = f"--constraint={ROOT / 'requirements-local.txt'}"
    packages = compiled(f"{BUILDER}/requirements.txt", builder_pins(project), tested)
    packages = [package for package in packages if not CUDA.match(package)]
    torch = [package for package in packages if package.startswith("torch==")]
    # The file has the hashes of both indexes: the one for CPUs and the one for GPUs.
    write(f"{BUILDER}/torch.txt", "PyTorch for the builder's image.", torch)
    others = [package for package in packages if package not in torch]
    write(f"{BUILDER}/requirements.txt", "Packages that build models.", others)
    write(
        "containers/serving/requirements.txt",
        "Packages that the image adds to SageMaker's for Python models.",
        compiled(
            "containers/serving/requirements.txt", groups["serving"], "--no-deps", python=SERVING_PYTHON
        ),
    )
    write(TIMM, "What builds of timm models import.", compiled(TIMM, groups["timm"], "--no-deps"))
    write_embedded()


if __name__ == "__main__":
    main()
