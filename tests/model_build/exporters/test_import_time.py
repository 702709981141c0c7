"""What starts quickly or runs without a framework imports none."""

import subprocess
import sys

import pytest

BUILD = ("torch", "transformers", "onnx", "onnxruntime", "huggingface_hub", "xgboost", "sklearn")
LOAD = """
import sys
from pathlib import Path
from tests.model_build.frameworks import framework_of
framework_of(Path(sys.argv[1]), "text-embedding", max_length=24)
import transformers
print("transformers.loss.loss_utils" in sys.modules, "scipy.optimize" in sys.modules)
print(transformers.utils.is_scipy_available())
"""


def printed(code: str, *arguments: str) -> str:
    return subprocess.check_output([sys.executable, "-c", code, *arguments], text=True)


@pytest.mark.soak
def test_a_text_model_is_loaded_without_scipy_although_it_is_installed(tiny_folder):
    assert printed(LOAD, str(tiny_folder)).split() == ["True", "False", "True"]


@pytest.mark.parametrize(
    ("module", "slow"),
    [
        ("model_build.__main__", (*BUILD, "boto3")),  # which also answers builds that reuse an artifact
        ("tritonstack.cli.commands.builds.build", (*BUILD, "boto3")),
        ("tritonstack.operate.verify.smoke", (*BUILD, "model_build", "tokenizers")),
    ],
)
def test_slow_libraries_are_imported_where_they_are_needed(module, slow):
    code = f"import sys, {module}; print([name for name in {slow} if name in sys.modules])"
    assert printed(code) == "[]\n"
