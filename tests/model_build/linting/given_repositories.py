"""Small Triton repositories that people could have written, and what `doctor` finds in them."""

import tarfile
from pathlib import Path

from model_build.linting.check import lint_repository
from model_build.linting.findings import Finding, LintOptions

Files = dict[str, str]

ONNX = """\
name: "scores"
backend: "onnxruntime"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] } ]
instance_group [ { count: 2 kind: KIND_CPU } ]
"""
PYTHON = """\
name: "cut"
backend: "python"
max_batch_size: 8
input [ { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""
PROGRAM = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return []
"""
ENSEMBLE = """\
name: "whole"
platform: "ensemble"
max_batch_size: 8
input [ { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] } ]
ensemble_scheduling {
  step [
    {
      model_name: "cut"
      model_version: -1
      input_map { key: "TEXT" value: "TEXT" }
      output_map { key: "x" value: "features" }
    },
    {
      model_name: "scores"
      model_version: -1
      input_map { key: "x" value: "features" }
      output_map { key: "y" value: "y" }
    }
  ]
}
"""
SINGLE = {"scores/config.pbtxt": ONNX, "scores/1/model.onnx": "graph"}
CUT = {"cut/config.pbtxt": PYTHON, "cut/1/model.py": PROGRAM}
TRIO = {**SINGLE, **CUT, "whole/config.pbtxt": ENSEMBLE, "whole/1/README.txt": "kept"}
OPTIONS = LintOptions("26.05")


def write(folder: Path, files: Files) -> Path:
    """Write a repository."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def packed(folder: Path, archive: Path) -> Path:
    """Pack a folder as people do: `tar -C folder -czf archive .`"""
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, ".")
    return archive


def findings(path: Path, options: LintOptions = OPTIONS) -> list[Finding]:
    return list(lint_repository(path, options).findings)


def found_at(path: Path, options: LintOptions = OPTIONS) -> list[str]:
    """Return the findings as `error TS316 scores/config.pbtxt:4 input.dims`, below the path."""
    return [_place(finding, path) for finding in findings(path, options)]


def _place(finding: Finding, path: Path) -> str:
    file = str(finding.file.relative_to(path)) if finding.file != path else "{path}"
    line = f":{finding.line}" if finding.line else ""
    return f"{finding.severity} {finding.code} {file}{line} {finding.field or '-'}"


def assert_finding(path: Path, expected: str, options: LintOptions = OPTIONS) -> None:
    """Expect a finding as `found_at` describes it, and perhaps a value that its message has."""
    *place, value = (*expected.split(" ", 4), "")[:5]
    results = findings(path, options)
    assert any(
        _place(finding, path) == " ".join(place) and value in finding.message for finding in results
    ), results
    assert all(finding.remedy for finding in results)
