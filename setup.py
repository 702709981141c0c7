"""Copy what users need from the top level of the source tree into the wheel, as tritonstack/shipped.

pyproject.toml declares everything else.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
SHIPPED = (
    ".github/workflows",
    "cdk.json",
    "containers",
    "examples",
    "package.json",
    "package-lock.json",
    "requirements.txt",
    "requirements-local.txt",
    "requirements-cuda.txt",
    "requirements-torch-cpu.txt",
    "requirements-node.txt",
)
# What running an example in its folder writes there is not shipped either.
GENERATED = shutil.ignore_patterns("__pycache__", ".*", "weights", "*.lock.yaml", "cdk.out")


class BuildWithShippedFiles(build_py):
    """`build_py` that also copies SHIPPED. Editable installs read the source tree instead."""

    def run(self) -> None:
        """Build the packages, then copy the files beside them."""
        super().run()
        if self.editable_mode:
            return
        shipped = Path(self.build_lib, "tritonstack", "shipped")
        shutil.rmtree(shipped, ignore_errors=True)
        shipped.mkdir(parents=True)
        for name in SHIPPED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, shipped / name, ignore=GENERATED)
            else:
                shutil.copy2(source, shipped / name)


setup(cmdclass={"build_py": BuildWithShippedFiles})
