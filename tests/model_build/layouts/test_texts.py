"""Which Triton models a text model consists of: one Python model, or a tokenizer and a graph."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest

from model_build.build import BuildFolders
from model_build.data.context import BuildContext
from model_build.data.graphs import ExportedGraph, ServableGraph
from model_build.exporters.text_framework import TextFramework
from model_build.layouts import texts as code
from model_build.layouts.texts import text_layout
from model_build.repository.config import read_config
from model_build.sources import FetchedSource
from tests.model_build.recipes.ensemble_parts import NO_HASH
from tests.model_build.tiny import write_model
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import load_document
from tritonstack.records.manifests import ParityReport, TensorSpec
from tritonstack.reference.targets import Target
from tritonstack.runtime import find_installation
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import TextEmbeddingRecipe

ONE, TWO = ["model", "tiny"], ["model", "tiny", "tokenizer"]
PER_TOKEN = (TensorSpec(name="embedding", datatype="FP32", shape=(-1, 32)),)


class Texts:
    """A text model whose repository can be written with different settings."""

    def __init__(self, folder: Path, graph: ExportedGraph, framework: TextFramework, folders: BuildFolders):
        self._folder, self._graph, self._framework, self._folders = folder, graph, framework, folders

    def write(
        self,
        extra: str = "",
        *,
        recipe_fields: str = "",
        batching: str = "",
        hardware: str = "cpu",
        **changes: Any,
    ) -> tuple[list[str], Path]:
        """Write the repository; return the names of its models, and its folder."""
        model = write_model(self._folder / "m", source="file://weights", extra=extra)
        text = model.file.read_text().replace("max_length: 24", f"max_length: 24{recipe_fields}")
        model.file.write_text(text.replace("max_batch: 4", f"max_batch: 4{batching}"))
        document = load_document(model.file, ModelSpec)
        graph = shutil.copytree(self._graph.file.parent, self._folder / "graph")
        servable = ServableGraph(
            folder=graph,
            backend="onnxruntime",
            precision="fp32",
            inputs=self._graph.inputs,
            outputs=self._graph.outputs,
            parity=ParityReport(stage="graph", cases=1, min_cosine=1, max_absolute_error=0),
        )
        recipe = document.record.recipe
        assert isinstance(recipe, TextEmbeddingRecipe)
        repository = self._folder / "repository"
        context = BuildContext(
            model=document,
            source=FetchedSource(self._folder, "", NO_HASH),
            folder=self._folder,
            cache_dir=self._folders.cache,
            target=Target(hardware),
            installation=find_installation(home=self._folders.server),
            build_member=Path,
        )
        text_layout(document, recipe).write(
            repository, dataclasses.replace(servable, **changes), self._framework, context
        )
        return sorted(folder.name for folder in repository.iterdir()), repository


@pytest.fixture
def texts(
    tmp_path: Path,
    tiny_source: FetchedSource,
    tiny_recipe: TextEmbeddingRecipe,
    tiny_graph: ExportedGraph,
    folders: BuildFolders,
) -> Texts:
    return Texts(tmp_path, tiny_graph, TextFramework(source=tiny_source, recipe=tiny_recipe), folders)


def test_on_a_cpu_one_model_has_the_code_the_tokenizer_and_the_graph(texts):
    names, repository = texts.write("triton: {warm_up: true}\n")
    assert names == ONE
    files = {file.name for file in (repository / "model" / "1").iterdir()}
    assert files == {"model.py", "model.onnx", "tokenizer.json"}
    config = read_config(repository / "model" / "config.pbtxt")
    assert (config.backend, config.max_batch_size, config.instance_group[0].count) == ("python", 4, 2)
    assert [sample.batch_size for sample in config.model_warmup] == [1, 4]
    assert (repository / "model" / "warmup" / "input-0").read_bytes()
    steps = read_config(repository / "tiny" / "config.pbtxt").ensemble_scheduling.step
    assert [step.model_name for step in steps] == ["model"]


def test_small_batches_of_another_size_are_a_parameter(texts):
    names, repository = texts.write(recipe_fields=", batch_tokens: 256")
    assert names == ONE
    files = {file.name for file in (repository / "model" / "1").iterdir()}
    assert files == {"model.py", "text_model.py", "model.onnx", "tokenizer.json"}
    config = read_config(repository / "model" / "config.pbtxt")
    assert config.parameters["batch_tokens"].string_value == "256"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"hardware": "sm86"}, "sm86"), ({"two": True}, "one_model")],
)
def test_small_batches_need_one_model(texts, changes, reason):
    two = ", one_model: false" if changes.pop("two", False) else ""
    with pytest.raises(InvalidFilesError, match=reason) as caught:
        texts.write(recipe_fields=f", batch_tokens: 256{two}", **changes)
    (violation,) = caught.value.violations
    assert violation.field == "recipe.batch_tokens"


@pytest.mark.parametrize(
    ("extra", "changes"),
    [
        ("", {"hardware": "sm86"}),
        ("", {"backend": "pytorch"}),
        ("", {"outputs": PER_TOKEN}),
        ("", {"recipe_fields": ", one_model: false"}),
        ("triton: {parameters: {intra_op_thread_count: '1'}}\n", {}),
        ("triton: {optimization: {graph_level: 1}}\n", {}),
    ],
)
def test_other_texts_have_a_tokenizer_and_a_graph(texts, extra, changes):
    assert texts.write(extra, **changes)[0] == TWO


@pytest.mark.parametrize(
    ("changes", "from_bytes", "padding"),
    [
        ({"backend": "pytorch"}, 0, "groups"),
        ({"recipe_fields": ", one_model: false"}, 0, "groups"),
        ({"backend": "pytorch"}, 1 << 30, ""),
        ({"backend": "pytorch", "hardware": "sm86"}, 0, ""),
        # Triton then passes responses on in the order of the requests, so that each batch has few texts.
        ({"backend": "pytorch", "batching": ", keep_order: true"}, 0, ""),
    ],
)
def test_tokenizers_pad_in_groups_if_the_graph_is_large_and_triton_may_reorder(
    texts, changes, from_bytes, padding, monkeypatch
):
    monkeypatch.setattr(code, "GROUPS_FROM_BYTES", from_bytes)
    _, repository = texts.write(**changes)
    config = read_config(repository / "tokenizer" / "config.pbtxt")
    assert config.dynamic_batching.preserve_ordering is ("keep_order" in changes.get("batching", ""))
    assert config.parameters["padding"].string_value == padding


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hardware": "sm86"}, "onnxruntime backend on sm86"),
        ({"outputs": PER_TOKEN}, "per token"),
    ],
)
def test_one_model_that_is_impossible_is_rejected(texts, changes, reason):
    with pytest.raises(InvalidFilesError, match=reason) as caught:
        texts.write(recipe_fields=", one_model: true", **changes)
    (violation,) = caught.value.violations
    assert (violation.field, violation.line) == ("recipe.one_model", 4)


def test_instances_on_a_gpu_are_rejected_on_a_cpu(texts):
    with pytest.raises(InvalidFilesError, match=r"triton\.instances\.0\.device"):
        texts.write("triton: {instances: [{device: gpu}]}\n")
