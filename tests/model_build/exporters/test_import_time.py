"""Loading a model imports no package that only training needs."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

LOAD = """
import sys
from pathlib import Path
from model_build.exporters.text_framework import TextFramework
from model_build.sources import fetch_source
from tritonstack.spec.models.recipes import TextEmbeddingRecipe
folder = Path(sys.argv[1])
source = fetch_source(f"file://{folder.name}", model_folder=folder.parent, cache_dir=folder)
framework = TextFramework(source=source, recipe=TextEmbeddingRecipe(kind="text-embedding", max_length=24))
import transformers
print("transformers.loss.loss_utils" in sys.modules, "scipy.optimize" in sys.modules)
print(transformers.utils.is_scipy_available())
"""


@pytest.mark.soak
def test_a_text_model_is_loaded_without_scipy(tiny_folder):
    assert find_spec("scipy") is not None
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD, str(tiny_folder)], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == ["True", "False", "True"]


def test_frameworks_are_imported_only_to_build():
    """A build that reuses an artifact needs none."""
    names = ("onnx", "onnxruntime", "torch", "transformers")
    script = f"import sys, model_build.job; print([name for name in {names} if name in sys.modules])"
    imported = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert imported.stdout == "[]\n"
