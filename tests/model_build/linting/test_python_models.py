"""Findings about Python models: code, calls, and execution environments."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from model_build.linting.findings import LintOptions
from tests.model_build.linting.given_repositories import (
    PROGRAM,
    PYTHON,
    Files,
    assert_finding,
    findings,
    found_at,
    write,
)


def python(addition: str = "", program: str = PROGRAM) -> Files:
    return {"cut/config.pbtxt": PYTHON + addition, "cut/1/model.py": program}


def parameter(value: str) -> str:
    return f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{value}" }} }}\n'


CASES = {
    "calls": (
        python(program=PROGRAM + 'call = pb_utils.InferenceRequest(model_name="scores")\n'),
        "warning TS332 cut/1/model.py - scores",
    ),
    "absolute environment": (
        python(parameter("/opt/env.tar.gz")),
        "error TS309 cut/config.pbtxt:6 parameters no path",
    ),
    "relative environment": (
        python(parameter("env.tar.gz")),
        "error TS309 cut/config.pbtxt:6 parameters no path",
    ),
    "missing environment": (
        python(parameter("$$TRITON_MODEL_DIRECTORY/env.tar.gz")),
        "error TS309 cut/config.pbtxt:6 parameters cut/env.tar.gz",
    ),
    "environment outside": (
        python(parameter("$$TRITON_MODEL_DIRECTORY/../../env.tar.gz")),
        "error TS309 cut/config.pbtxt:6 parameters outside",
    ),
    "broken environment": (
        {**python(parameter("$$TRITON_MODEL_DIRECTORY/env.tar.gz")), "cut/env.tar.gz": "no archive"},
        "error TS309 cut/config.pbtxt:6 parameters gzip",
    ),
}


@pytest.mark.parametrize(("files", "finding"), CASES.values(), ids=CASES)
def test_finding(tmp_path, files, finding):
    assert_finding(write(tmp_path / "given", files), finding)


TORCH = """\
backend: "pytorch"
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] } ]
"""


def module(folder: Path, members: dict[str, str]) -> Path:
    """Write a repository with a PyTorch file of these members."""
    path = write(folder / "given", {"net/config.pbtxt": TORCH, "net/1/model.pt": ""})
    with zipfile.ZipFile(path / "net/1/model.pt", "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"net/data.pkl": ""}, ["error TS306 net/1/model.pt -"]),
        (
            {"net/constants.pkl": "", "net/code/net.py": "torch.save(x, 'y')"},
            ["warning TS332 net/1/model.pt -"],
        ),
        ({"net/constants.pkl": "", "net/code/net.py": "x + 1"}, []),
    ],
    ids=["weights", "access to files", "sound"],
)
def test_torchscript(tmp_path, members, expected):
    assert found_at(module(tmp_path, members)) == expected


def environment(file: Path, *names: str) -> None:
    with tarfile.open(file, "w:gz") as tar:
        link = tarfile.TarInfo("bin/python3")  # to the Python of the image, as usual
        link.type, link.linkname = tarfile.SYMTYPE, "/usr/bin/python3"
        tar.addfile(link)
        for name in names:
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())


@pytest.mark.parametrize(
    ("names", "release", "value"),
    [
        (("bin/activate", "bin/python3.12"), "26.05", None),
        (("bin/activate", "bin/python3.10"), "24.09", None),
        (("bin/activate", "bin/python3.10"), "26.05", "Python 3.10; Triton 26.05 runs Python 3.12"),
        (("env/bin/activate", "env/bin/python3.12"), "26.05", "bin/activate"),
        (("../x",), "26.05", "'../x'"),
    ],
)
def test_the_execution_environment_fits_the_release(tmp_path, names, release, value):
    path = write(tmp_path / "given", python(parameter("$$TRITON_MODEL_DIRECTORY/env.tar.gz")))
    environment(path / "cut/env.tar.gz", *names)
    results = findings(path, LintOptions(release))
    assert [finding.code for finding in results] == ([] if value is None else ["TS309"])
    assert all(value in finding.message for finding in results)
