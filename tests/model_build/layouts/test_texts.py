"""Which Triton models a text model consists of: one Python model, or a tokenizer and a graph."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest

from model_build.build import BuildFolders
from model_build.data import ExportedGraph, ServableGraph
from model_build.layouts import texts as code
from model_build.layouts.texts import text_layout
from model_build.repository.config import read_config
from tests.model_build.frameworks import framework_of
from tests.model_build.repository.tiny_repositories import PARITY
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny import TEXTS
from tests.model_build.written_repositories import context_of
from tritonstack.base.errors import InvalidFilesError
from tritonstack.facts.targets import Target
from tritonstack.files.model.recipes import TextEmbeddingRecipe
from tritonstack.files.records.manifests import TensorSpec
from tritonstack.triton import find_installation

ONE, TWO = ["model", "tiny"], ["model", "tiny", "tokenizer"]
PER_TOKEN = (TensorSpec(name="embedding", datatype="FP32", shape=(-1, 32)),)


Write = Callable[..., tuple[list[str], Path]]


@pytest.fixture
def write(tmp_path: Path, tiny_folder: Path, tiny_graph: ExportedGraph, folders: BuildFolders) -> Write:
    """Write a repository; return the names of its models, and its folder."""

    def written(
        recipe: Mapping[str, Any] = MappingProxyType({}),
        *,
        hardware: str = "cpu",
        triton: Mapping[str, Any] = MappingProxyType({}),
        batching: Mapping[str, Any] = MappingProxyType({}),
        **changes: Any,
    ) -> tuple[list[str], Path]:
        fields: dict[str, Any] = {"kind": "text-embedding", "max_length": 24, **recipe}
        shutil.copytree(tiny_folder, tmp_path / "weights")
        options = {"triton": dict(triton), "batching": {"max_batch": 4, **batching}}
        model = write_supplied(tmp_path, fields, test_inputs=TEXTS, **options)
        context = replace(
            context_of(model, tmp_path / "work"),
            target=Target(hardware),
            cache_dir=folders.cache,
            installation=find_installation(home=folders.server),
        )
        graph = ServableGraph(
            folder=shutil.copytree(tiny_graph.file.parent, tmp_path / "graph"),
            backend="onnxruntime",
            precision="fp32",
            inputs=tiny_graph.inputs,
            outputs=tiny_graph.outputs,
            parity=PARITY,
        )
        layout = text_layout(model, cast("TextEmbeddingRecipe", model.record.recipe))
        repository = tmp_path / "repository"
        layout.write(repository, replace(graph, **changes), framework_of(tiny_folder, **fields), context)
        return sorted(folder.name for folder in repository.iterdir()), repository

    return written


def test_on_a_cpu_one_model_has_the_code_the_tokenizer_and_the_graph(write):
    names, repository = write(triton={"warm_up": True})
    assert names == ONE
    files = {file.name for file in (repository / "model" / "1").iterdir()}
    assert files == {"model.py", "model.onnx", "tokenizer.json"}
    config = read_config(repository / "model" / "config.pbtxt")
    assert (config.backend, config.max_batch_size, config.instance_group[0].count) == ("python", 4, 2)
    assert [sample.batch_size for sample in config.model_warmup] == [1, 4]
    assert (repository / "model" / "warmup" / "input-0").read_bytes()
    steps = read_config(repository / "tiny" / "config.pbtxt").ensemble_scheduling.step
    assert [step.model_name for step in steps] == ["model"]


def test_small_batches_of_another_size_are_a_parameter(write):
    names, repository = write({"batch_tokens": 256})
    assert names == ONE
    files = {file.name for file in (repository / "model" / "1").iterdir()}
    assert files == {"model.py", "text_model.py", "model.onnx", "tokenizer.json"}
    config = read_config(repository / "model" / "config.pbtxt")
    assert config.parameters["batch_tokens"].string_value == "256"


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ({}, {"hardware": "sm86"}),
        ({}, {"backend": "pytorch"}),
        ({}, {"outputs": PER_TOKEN}),
        ({"one_model": False}, {}),
        ({}, {"triton": {"parameters": {"intra_op_thread_count": "1"}}}),
        ({}, {"triton": {"optimization": {"graph_level": 1}}}),
    ],
)
def test_other_texts_have_a_tokenizer_and_a_graph(write, recipe, changes):
    assert write(recipe, **changes)[0] == TWO


@pytest.mark.parametrize(
    ("recipe", "changes", "from_bytes", "padding"),
    [
        ({}, {"backend": "pytorch"}, 0, "groups"),
        ({"one_model": False}, {}, 0, "groups"),
        ({}, {"backend": "pytorch"}, 1 << 30, ""),
        ({}, {"backend": "pytorch", "hardware": "sm86"}, 0, ""),
        # Triton then passes responses on in the order of the requests, so that each batch has few texts.
        ({}, {"backend": "pytorch", "batching": {"keep_order": True}}, 0, ""),
    ],
)
def test_tokenizers_pad_in_groups_if_the_graph_is_large_and_triton_may_reorder(
    write, recipe, changes, from_bytes, padding, monkeypatch
):
    monkeypatch.setattr(code, "GROUPS_FROM_BYTES", from_bytes)
    _, repository = write(recipe, **changes)
    config = read_config(repository / "tokenizer" / "config.pbtxt")
    assert config.dynamic_batching.preserve_ordering is ("batching" in changes)
    assert config.parameters["padding"].string_value == padding


@pytest.mark.parametrize(
    ("recipe", "changes", "field", "reason"),
    [
        ({"batch_tokens": 256}, {"hardware": "sm86"}, "recipe.batch_tokens", "sm86"),
        ({"batch_tokens": 256, "one_model": False}, {}, "recipe.batch_tokens", "one_model"),
        ({"one_model": True}, {"hardware": "sm86"}, "recipe.one_model", "onnxruntime backend on sm86"),
        ({"one_model": True}, {"outputs": PER_TOKEN}, "recipe.one_model", "per token"),
        ({}, {"triton": {"instances": [{"device": "gpu"}]}}, "triton.instances.0.device", ""),
    ],
)
def test_settings_that_are_impossible_are_rejected(write, recipe, changes, field, reason):
    with pytest.raises(InvalidFilesError, match=reason) as caught:
        write(recipe, **changes)
    (violation,) = caught.value.violations
    assert violation.field == field
    assert violation.line
