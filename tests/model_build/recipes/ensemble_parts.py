"""Artifacts of tiny models, made without recipes, to build ensembles of."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from model_build.data.context import BuildContext, WrittenRepository
from model_build.data.graphs import ServableGraph
from model_build.progress import BuildSteps, ignore_progress
from model_build.recipes.ensemble import Ensemble
from model_build.repository.layout import check_layout
from model_build.repository.parts import ModelProperties, add_graph_model, add_python_model
from model_build.sources import FetchedSource
from model_build.store.archive import pack
from tests.model_build.repository.tiny_repositories import PARITY
from tritonstack.base.yaml import Document
from tritonstack.records.manifests import (
    ARCHIVE_NAME,
    MANIFEST_NAME,
    Manifest,
    ParityReport,
    ServedBy,
    TensorSpec,
)
from tritonstack.reference.targets import Target
from tritonstack.runtime import find_installation
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.triton_options import Batching, TritonOptions

NO_HASH = "0" * 64


def keep_artifact(
    repository: Path,
    folder: Path,
    *,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    max_batch: int,
    target: str = "cpu",
) -> Path:
    """Pack a repository as a build does; return the artifact's folder."""
    entry = check_layout(repository)
    folder.mkdir(parents=True)
    packed = pack(repository, folder / ARCHIVE_NAME)
    manifest = Manifest(
        model=entry,
        entry_model=entry,
        digest=packed.digest,
        target=target,
        spec_hash=NO_HASH,
        source="",
        source_revision="",
        weights_sha256=NO_HASH,
        precision="fp32",
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        archive_bytes=packed.size_bytes,
        unpacked_bytes=packed.unpacked_bytes,
        files=packed.files,
        parity=(ParityReport(stage="served", cases=3, min_cosine=1.0, max_absolute_error=0.0),),
        latency=(),
        served_by=ServedBy(kind="embedded", triton="2.51.0", python="3.11.0"),
        max_batch=max_batch,
        tools={},
    )
    (folder / MANIFEST_NAME).write_text(manifest.to_json())
    return folder.rename(folder.with_name(packed.digest))


def python_artifact(
    root: Path,
    name: str,
    code: str,
    *,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    max_batch: int = 4,
    environment: Path | None = None,
) -> Path:
    """Keep a Python model, with the archive of its packages if it has one."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "code.py").write_text(code)
        add_python_model(
            folder / "repository",
            name=name,
            code=folder / "code.py",
            inputs=inputs,
            outputs=outputs,
            batching=Batching(max_batch=max_batch),
            properties=ModelProperties(environment=environment is not None),
        )
        if environment is not None:
            (folder / "repository" / name / "env.tar.gz").write_bytes(environment.read_bytes())
        return keep_artifact(
            folder / "repository", root / name / "new", inputs=inputs, outputs=outputs, max_batch=max_batch
        )


def graph_artifact(
    root: Path,
    name: str,
    graph: bytes,
    *,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    max_batch: int = 4,
) -> Path:
    """Keep a model of one ONNX graph."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "graph").mkdir()
        (folder / "graph/model.onnx").write_bytes(graph)
        servable = ServableGraph(
            folder=folder / "graph",
            backend="onnxruntime",
            precision="fp32",
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            parity=PARITY,
            batches=max_batch > 0,
        )
        add_graph_model(
            folder / "repository",
            name=name,
            graph=servable,
            batching=Batching(max_batch=max_batch),
            triton=TritonOptions(),
            target=Target("cpu"),
        )
        return keep_artifact(
            folder / "repository", root / name / "new", inputs=inputs, outputs=outputs, max_batch=max_batch
        )


def classifier_graph(weights: Sequence[Sequence[float]]) -> bytes:
    """Write probabilities = softmax(embedding @ weights) as ONNX."""
    import onnx
    from onnx import TensorProto, helper

    rows, columns = len(weights), len(weights[0])
    flat = [value for row in weights for value in row]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["embedding", "weights"], ["raw"]),
            helper.make_node("Softmax", ["raw"], ["probabilities"], axis=1),
        ],
        "classifier",
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", rows])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", columns])],
        [helper.make_tensor("weights", TensorProto.FLOAT, [rows, columns], flat)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def write_ensemble(
    model: Document[ModelSpec], folder: Path, artifacts: Mapping[str, Path], server: Path
) -> WrittenRepository:
    """Write the repository of an ensemble whose members have been built already."""
    folder.mkdir(parents=True)
    context = BuildContext(
        model=model,
        source=FetchedSource(model.file.parent, "", NO_HASH),
        folder=folder,
        cache_dir=folder,
        target=Target("cpu"),
        installation=find_installation(home=server),
        build_member=lambda name: artifacts[name],
    )
    recipe = Ensemble(model, model.record.recipe)  # type: ignore[arg-type]
    return recipe.write_repository(context, BuildSteps(ignore_progress))
