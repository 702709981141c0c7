"""A real Triton server rejects what `doctor` calls rejected, and loads what has no error."""

from collections.abc import Iterator

import pytest

from tests.contract.drivers.local import EmbeddedDriver
from tests.contract.drivers.servers import MultiModel
from tests.model_build.linting import test_configs, test_ensembles
from tests.model_build.linting.given_repositories import CUT, PROGRAM, SINGLE, TRIO, Files, findings, write

pytestmark = pytest.mark.e2e
OF_TRITON = ("TS316", "TS214")
ELSEWHERE = {
    "missing part": "the server has models of that name from other cases",
    "another name": "multi-model hosting names the folder itself",
    "backend": "multi-model hosting loads another folder",
    "another platform": "the rule is about ONNX Runtime",
}
CASES = {
    name: files
    for name, (files, line) in {**test_configs.CASES, **test_ensembles.CASES}.items()
    if name not in ELSEWHERE and (line.startswith("warning") or any(code in line for code in OF_TRITON))
}
SOUND = {"model": SINGLE, "Python model": CUT, "ensemble": TRIO}


@pytest.fixture(scope="module")
def many() -> Iterator[MultiModel]:
    driver = EmbeddedDriver()
    yield driver.multi_model()
    driver.close()


def in_python(files: Files) -> Files:
    """Replace graphs by Python models, which need no real graph."""
    return {
        name.replace("model.onnx", "model.py"): PROGRAM
        if name.endswith("model.onnx")
        else text.replace('backend: "onnxruntime"', 'backend: "python"')
        for name, text in files.items()
    }


@pytest.mark.parametrize(("name", "files"), {**SOUND, **CASES}.items(), ids={**SOUND, **CASES})
def test_triton_agrees(tmp_path, many, name, files):
    repository = in_python(files)
    errors = [finding for finding in findings(write(tmp_path, repository)) if finding.severity == "error"]
    needs_gpu = name == "GPU"  # a warning as long as the instance type is unknown
    model = name.replace(" ", "-")
    many.lay(model, lambda folder: write(folder, repository))
    answer = many.load(model, None)
    assert (answer.status == 200) == (not errors and not needs_gpu), answer.body
