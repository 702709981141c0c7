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
    assert_found,
    findings,
    lines,
    write,
)


def python(addition: str = "", program: str = PROGRAM) -> Files:
    return {"cut/config.pbtxt": PYTHON + addition, "cut/1/model.py": program}


def parameter(value: str) -> str:
    return f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{value}" }} }}\n'


CASES = {
    "syntax": (python(program="class X(:\n"), "error cut/1/model.py: cannot be parsed: "),
    "no class": (
        python(program="x = 1\n"),
        "error cut/1/model.py: no class TritonPythonModel [TS309]",
    ),
    "no execute": (
        python(program="class TritonPythonModel:\n    pass\n"),
        "error cut/1/model.py: TritonPythonModel has no method execute [TS309]",
    ),
    "calls": (
        python(program=PROGRAM + 'call = pb_utils.InferenceRequest(model_name="scores")\n'),
        "warning cut/1/model.py: calls scores, which Triton on SageMaker does not load by itself [TS332]",
    ),
    "absolute environment": (
        python(parameter("/opt/env.tar.gz")),
        "error cut/config.pbtxt:6: parameters: EXECUTION_ENV_PATH '/opt/env.tar.gz' is an absolute path, "
        "which SageMaker's image does not have [TS309]",
    ),
    "relative environment": (
        python(parameter("env.tar.gz")),
        "error cut/config.pbtxt:6: parameters: EXECUTION_ENV_PATH 'env.tar.gz' is a path relative to the "
        "server's working directory [TS309]",
    ),
    "missing environment": (
        python(parameter("$$TRITON_MODEL_DIRECTORY/env.tar.gz")),
        "error cut/config.pbtxt:6: parameters: file not found: cut/env.tar.gz [TS309]",
    ),
    "environment outside": (
        python(parameter("$$TRITON_MODEL_DIRECTORY/../../env.tar.gz")),
        "error cut/config.pbtxt:6: parameters: EXECUTION_ENV_PATH "
        "'$$TRITON_MODEL_DIRECTORY/../../env.tar.gz' is outside the repository [TS309]",
    ),
    "broken environment": (
        {**python(parameter("$$TRITON_MODEL_DIRECTORY/env.tar.gz")), "cut/env.tar.gz": "no archive"},
        "error cut/config.pbtxt:6: parameters: env.tar.gz cannot be read: not a gzip file [TS309]",
    ),
}


@pytest.mark.parametrize("form", ["folder", "archive"])
@pytest.mark.parametrize(("files", "line"), CASES.values(), ids=CASES)
def test_finding(tmp_path, files, line, form):
    assert_found(tmp_path, files, line, form)


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


def test_a_file_of_weights_is_no_torchscript(tmp_path):
    assert lines(module(tmp_path, {"net/data.pkl": ""})) == [
        "error net/1/model.pt: model.pt is a pickle of weights or of a module (torch.save), not TorchScript "
        "[TS306]"
    ]


def test_torchscript_that_accesses_files(tmp_path):
    code = {"net/constants.pkl": "", "net/code/net.py": "torch.save(x, 'y')"}
    assert lines(module(tmp_path, code)) == [
        "warning net/1/model.pt: the program in model.pt uses torch.save, which access files or other "
        "machines [TS332]"
    ]
    assert lines(module(tmp_path, {"net/constants.pkl": "", "net/code/net.py": "x + 1"})) == []


def test_links_to_the_python_of_the_image_are_usual(tmp_path):
    path = write(tmp_path / "given", python(parameter("$$TRITON_MODEL_DIRECTORY/env.tar.gz")))
    with tarfile.open(path / "cut/env.tar.gz", "w:gz") as tar:
        link = tarfile.TarInfo("bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, "/usr/bin/python3"
        tar.addfile(link)
        tar.addfile(tarfile.TarInfo("bin/activate"), io.BytesIO())
    assert lines(path) == []


def environment(file: Path, *names: str) -> None:
    with tarfile.open(file, "w:gz") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("bin/activate", "bin/python3.12"), []),
        (
            ("bin/activate", "bin/python3.10"),
            ["env.tar.gz has Python 3.10; Triton 26.05 runs Python 3.12"],
        ),
        (
            ("env/bin/activate", "env/bin/python3.12"),
            ["env.tar.gz has no bin/activate"],
        ),
        (("../x",), ["env.tar.gz '../x' is outside the archive"]),
    ],
)
def test_the_execution_environment_fits_the_release(tmp_path, names, expected):
    path = write(tmp_path / "given", python(parameter("$$TRITON_MODEL_DIRECTORY/env.tar.gz")))
    environment(path / "cut/env.tar.gz", *names)
    assert [one.message for one in findings(path)] == expected
    assert {one.code for one in findings(path)} <= {"TS309"}


def test_an_older_release_has_another_python(tmp_path):
    path = write(tmp_path / "given", python(parameter("$$TRITON_MODEL_DIRECTORY/env.tar.gz")))
    environment(path / "cut/env.tar.gz", "bin/activate", "bin/python3.10")
    assert lines(path, LintOptions("24.09")) == []
