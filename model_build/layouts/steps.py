"""The Triton models in front of a graph: a tokenizer, and a decoder of images."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from model_build import served
from model_build.environments.packing import build_environment, installed_requirement
from model_build.repository.parts import ModelProperties, add_python_model, environment_file
from tritonstack.files.model.triton_options import Batching
from tritonstack.files.records.manifests import EnvironmentReport, TensorSpec

SERVED = Path(served.__file__).parent
TOKENIZER_CODE = SERVED / "text_tokenizer.py"
PASSAGE_CODE = SERVED / "passage_tokenizer.py"
PREPARER_CODE = SERVED / "image_pixels.py"
TOKENIZER, PREPARER = "tokenizer", "preparer"
TEXT = TensorSpec(name="TEXT", datatype="BYTES", shape=(1,))
IMAGE = TensorSpec(name="IMAGE", datatype="BYTES", shape=(1,))
IDS = TensorSpec(name="input_ids", datatype="INT64", shape=(-1,))
MASK = TensorSpec(name="attention_mask", datatype="INT64", shape=(-1,))
Padding = Literal["together", "groups"]
"""Which texts a tokenizer pads to one length: all that wait, or groups of similar lengths."""


def add_tokenizer(
    repository: Path,
    *,
    tokenizer: str,
    callers_send: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    padding: Padding | None,
    batching: Batching,
    cache_dir: Path,
) -> EnvironmentReport:
    """Write a tokenizer; without `padding`, it pads each request by itself."""
    # The plain tokenizer only pads together, and returns ids of the type that most graphs take; engines of
    # older TensorRT versions take int32.
    is_plain = padding is not None and set(outputs) <= {IDS, MASK}
    parameters = {}
    if is_plain and padding == "groups":
        parameters = {"padding": "groups"}
    elif padding is not None and not is_plain:
        parameters = {"padding": "together"}
    version = add_python_model(
        repository,
        name=TOKENIZER,
        code=TOKENIZER_CODE if is_plain else PASSAGE_CODE,
        inputs=callers_send,
        outputs=outputs,
        batching=batching,
        properties=ModelProperties(parameters=parameters),
    )
    (version / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    return build_environment(
        [installed_requirement("tokenizers")],
        file=environment_file(repository, TOKENIZER),
        cache_dir=cache_dir,
        dependencies=False,  # packages for downloading tokenizers from the Hub
    )


def add_preparer(
    repository: Path,
    *,
    preparation: Mapping[str, Any],
    outputs: Sequence[TensorSpec],
    batching: Batching,
    cache_dir: Path,
) -> EnvironmentReport:
    """Write a model that decodes and scales images, with Pillow for every Python."""
    version = add_python_model(
        repository, name=PREPARER, code=PREPARER_CODE, inputs=(IMAGE,), outputs=outputs, batching=batching
    )
    (version / "preparation.json").write_text(json.dumps(preparation, sort_keys=True) + "\n")
    return build_environment(
        [installed_requirement("pillow")],
        file=environment_file(repository, PREPARER),
        cache_dir=cache_dir,
    )
