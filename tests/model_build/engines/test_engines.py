"""TensorRT engines: command lines per version, rejected settings, and files shared between builds."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from model_build.data import BuildContext, ExportedGraph, ServableGraph
from model_build.engines.build import EngineBuilder, SharedFiles
from model_build.engines.prepare import prepare_engines
from model_build.engines.trtexec import EngineOrder, profile_shapes, version_of_banner
from model_build.errors import EngineError
from model_build.progress import BuildSteps, Progress
from model_build.sources import FetchedSource
from tests.model_build.engines import stand_in_trtexec
from tests.model_build.engines.stand_in_machine import Machine, simulated_machine
from tests.model_build.tiny_graphs import answered, lookup, normalized, perceptron
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.base.yaml import Document, load_document
from tritonstack.facts.releases import RELEASES
from tritonstack.facts.targets import parse_target
from tritonstack.files.model.backend_rules import EXPLICIT_PROFILES, tensorrt_violations
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.tensorrt import Profile, Range, Shapes, TensorRT
from tritonstack.files.records.manifests import TensorSpec

SHAPES = {"ids": [Range(opt=4, max=4), Range(opt=12, max=24)]}
LONG = {"ids": [Range(opt=4, max=4), Range(min=16, opt=20, max=24)]}


@pytest.fixture
def machine_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return simulated_machine(tmp_path / "machine", monkeypatch, release="24.09", capability="8.6")


@pytest.fixture
def settle(tmp_path: Path) -> Callable[..., ServableGraph]:
    def run(
        graph: ExportedGraph,
        *,
        target: str = "sm86-24.09",
        extra: str = "",
        shared: str | None = None,
        cache: str = "cache",
        events: list[Progress] | None = None,
    ) -> ServableGraph:
        file = tmp_path / "model.yaml"
        file.write_text(SPEC + extra)
        document: Document[ModelSpec] = load_document(file, ModelSpec)
        context = BuildContext(
            model=document,
            source=FetchedSource(tmp_path, "1", "0" * 64),
            folder=tmp_path / "work",
            cache_dir=tmp_path / cache,
            target=parse_target(target),
            installation=None,  # type: ignore[arg-type] # nothing is served here
            build_member=lambda name: tmp_path / name,
            shared_cache=shared,
        )
        return prepare_engines(
            graph,
            cases=answered(graph),
            spec=document.record,
            context=context,
            steps=BuildSteps(([] if events is None else events).append),
        )

    return run


SPEC = (
    "name: tiny\ndescription: Tiny.\nsource: file://weights\n"
    "recipe: {kind: onnx, format: tensorrt}\nbatching: {max_batch: 4}\ntest_inputs:\n  - random: {}\n"
)
VARYING = "tensorrt: {profiles: [{sequence: {opt: 8, max: 24}}]}\n"


def order(version: tuple[int, ...], **more: Any) -> EngineOrder:
    facts: dict[str, Any] = {
        "graph": Path("/g/model.onnx"),
        "version": version,
        "precision": "fp16",
        "options": TensorRT(),
        "profiles": [SHAPES],
    }
    return EngineOrder(**(facts | more))


@pytest.mark.parametrize("release", list(RELEASES))
@pytest.mark.parametrize(
    ("precision", "portability", "profiles"),
    [
        ("fp32", "exact", 1),
        ("fp16", "same-capability", 1),
        ("bf16", "ampere-plus", 1),
        ("int8", "exact", 2),
        ("fp32", "same-capability", 2),
        ("bf16", "exact", 1),
    ],
)
def test_every_release_accepts_the_allowed_flags(release, precision, portability, profiles):
    version = RELEASES[release].tensorrt_version

    options = TensorRT.model_validate(
        {"portability": portability, "workspace_mib": 512, "version_compatible": True, "builder_level": 4}
    )
    violations = tensorrt_violations(options, precision, RELEASES[release])  # type: ignore[arg-type]
    shapes = [SHAPES, LONG][:profiles]
    rejected = bool(list(violations)) or (profiles > 1 and version < EXPLICIT_PROFILES)
    # Built as they would be of a version that knows everything: it rejects what is too new for the real one.
    newest = order((10, 16, 0), precision=precision, options=options, profiles=shapes)
    command = newest.command(Path("trtexec"), plan=Path("plan"), timing_cache=Path("cache"))
    words = [word.removeprefix("--").partition("=")[::2] for word in command[1:]]
    with pytest.raises(stand_in_trtexec.RejectedError) if rejected else nullcontext():
        stand_in_trtexec.check(words, version)  # type: ignore[arg-type] # pairs, by their form
    if not rejected:
        assert order(version, precision=precision, options=options, profiles=shapes).flags() == newest.flags()


def test_the_command_line_of_one_profile():
    options = TensorRT(workspace_mib=1024)
    command = order((8, 6, 1), options=options, precision="fp32").command(
        Path("/t/trtexec"), plan=Path("/p/model.plan"), timing_cache=Path("/c/timing")
    )
    assert command == [
        "/t/trtexec",
        "--onnx=/g/model.onnx",
        "--saveEngine=/p/model.plan",
        "--noTF32",
        "--builderOptimizationLevel=3",
        "--memPoolSize=workspace:1024",
        "--minShapes=ids:1x1",
        "--optShapes=ids:4x12",
        "--maxShapes=ids:4x24",
        "--timingCacheFile=/c/timing",
        "--skipInference",
    ]


def test_several_profiles_are_numbered_and_need_tensorrt_10():
    flags = order((10, 4, 0), profiles=[SHAPES, LONG]).flags()
    assert flags[2:] == (
        "--profile=0",
        "--minShapes=ids:1x1",
        "--optShapes=ids:4x12",
        "--maxShapes=ids:4x24",
        "--profile=1",
        "--minShapes=ids:1x16",
        "--optShapes=ids:4x20",
        "--maxShapes=ids:4x24",
    )
    with pytest.raises(EngineError, match=r"8\.6\.1 supports one"):
        order((8, 6, 1), profiles=[SHAPES, LONG]).flags()


def test_names_that_trtexec_would_misread():
    size = Range(opt=1, max=2)
    assert "--minShapes='a:0':1" in order((10, 4, 0), profiles=[{"a:0": [size]}]).flags()
    with pytest.raises(EngineError, match="'a,b'"):
        order((10, 4, 0), profiles=[{"a,b": [size]}]).flags()


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec", (8, 6, 1)),
        ("&&&& RUNNING TensorRT.trtexec [TensorRT v100001] # trtexec", (10, 0, 1)),
        ("&&&& RUNNING TensorRT.trtexec [TensorRT v101303] [b9] # trtexec", (10, 13, 3)),
        ("[11/21/2024-12:00:00] [I] Selected Device: NVIDIA A10G", None),
        ("[I] Selected Device: NVIDIA A10G", None),
    ],
)
def test_the_version_is_read_from_trtexec(line, version):
    assert version_of_banner(line) == version


def test_profiles_follow_from_the_model():
    spec = text_spec()
    (shapes,) = profile_shapes(spec, IDS)
    assert shapes == {"ids": [Range(opt=8, max=8), Range(opt=12, max=24)]}
    narrow = Profile(batch=Range(opt=2, max=4), sequence=Range(min=2, opt=3, max=5))
    explicit = Profile(shapes={"ids": Shapes(min=(1, 4), opt=(2, 4), max=(2, 4))})
    first, second = profile_shapes(with_profiles(spec, narrow, explicit), IDS)
    assert first == {"ids": [Range(opt=2, max=4), Range(min=2, opt=3, max=5)]}
    assert second == {"ids": [Range(min=1, opt=2, max=2), Range(min=4, opt=4, max=4)]}


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (Profile(shapes={"other": Shapes(min=(1,), opt=(1,), max=(1,))}), "unknown input other"),
        (Profile(shapes={"ids": Shapes(min=(1,), opt=(1,), max=(1,))}), "1 sizes of ids do not match"),
    ],
)
def test_invalid_profiles_are_rejected(profile, message):
    spec = text_spec()
    with pytest.raises(EngineError, match=message):
        profile_shapes(with_profiles(spec, profile), IDS)


def test_an_engine_from_graph_to_folder(tmp_path, machine_here, settle):
    events: list[Progress] = []
    servable = settle(lookup(tmp_path / "graph"), extra=VARYING, events=events)
    assert (servable.backend, servable.tensorrt, servable.precision) == ("tensorrt", "10.4.0.26", "fp32")
    assert [file.name for file in servable.folder.iterdir()] == ["model.plan"]
    assert (servable.profiles, servable.engines) == (1, {})
    assert servable.inputs[0].datatype == "INT64"
    (build_command, version) = machine_here.commands()
    assert "--maxShapes=ids:4x24" in build_command
    assert version[-1] == "--getPlanVersionOnly"
    lines = [event.detail for event in events if event.state == "running"]
    assert lines[0].startswith("&&&& RUNNING TensorRT.trtexec [TensorRT v100400] [b26] #")


def test_repeated_order_reuses_the_engine(tmp_path, machine_here, settle):
    first = settle(lookup(tmp_path / "a" / "graph"), extra=VARYING)
    second = settle(lookup(tmp_path / "b" / "graph"), extra=VARYING)
    assert (first.folder / "model.plan").read_bytes() == (second.folder / "model.plan").read_bytes()
    assert second.tensorrt == "10.4.0.26"
    assert sum(any(word.startswith("--onnx=") for word in words) for words in machine_here.commands()) == 1
    settle(lookup(tmp_path / "c" / "graph"), extra=VARYING.replace("24", "20"))
    assert sum(any(word.startswith("--onnx=") for word in words) for words in machine_here.commands()) == 2


def test_integers_of_64_bits_become_32_before_tensorrt_10(tmp_path, monkeypatch, settle):
    simulated_machine(tmp_path / "machine", monkeypatch, release="24.03", capability="8.6")
    servable = settle(lookup(tmp_path / "graph"), target="sm86-24.03", extra=VARYING)
    assert [tensor.datatype for tensor in (*servable.inputs, *servable.outputs)] == ["INT32", "FP32", "INT32"]
    assert servable.tensorrt == "8.6.3"
    model = onnx.load(tmp_path / "graph-int32" / "model.onnx")
    assert [value.name for value in (*model.graph.input, *model.graph.output)] == ["ids", "states", "same"]


def test_operators_misread_by_tensorrt_8_are_rewritten(tmp_path, monkeypatch, settle):
    here = simulated_machine(tmp_path / "machine", monkeypatch, release="24.03", capability="8.6")
    graph = normalized(tmp_path / "graph")
    settle(graph, target="sm86-24.03")
    file = Path(next(word for word in here.commands()[0] if "--onnx=" in word).removeprefix("--onnx="))
    model = onnx.load(file)
    assert model.opset_import[0].version == 17
    (length,) = (node for node in model.graph.node if node.op_type == "ReduceL2")
    assert len(length.input) == 1
    assert next(attribute.ints for attribute in length.attribute if attribute.name == "axes") == [1]
    assert onnx.load(graph.file).opset_import[0].version == 18


def test_operators_unsupported_by_tensorrt_8_are_rejected(tmp_path, monkeypatch, settle):
    simulated_machine(tmp_path / "machine", monkeypatch, release="24.03", capability="8.6")
    with pytest.raises(EngineError, match=r"17; .* 18") as caught:
        settle(normalized(tmp_path / "graph", kind="Mish"), target="sm86-24.03")
    assert "24.05" in str(caught.value.remedy)


def test_types_unsupported_by_engines_are_rejected(tmp_path, machine_here, settle):
    graph = perceptron(tmp_path / "graph")
    (x,) = graph.inputs
    wide = replace(graph, inputs=(x.model_copy(update={"datatype": "FP64"}),))
    with pytest.raises(EngineError, match=r"10\.4\.0 .* x \(FP64\)"):
        settle(wide)


def test_int8_is_explicit_in_the_graph(tmp_path, machine_here, settle):
    settle(perceptron(tmp_path / "graph"), extra="precision: int8\n")
    command = machine_here.commands()[0]
    assert {"--int8", "--fp16"} <= set(command)
    model = onnx.load(tmp_path / "graph-int8" / "model.onnx")
    zeros = [t for t in model.graph.initializer if t.name.endswith("zero_point")]
    assert {"QuantizeLinear", "DequantizeLinear"} <= {node.op_type for node in model.graph.node}
    assert zeros
    assert all(not onnx.numpy_helper.to_array(zero).any() for zero in zeros)


@pytest.mark.parametrize(
    ("release", "capability", "value"),
    [("25.04", "8.6", r"10\.9\.0; .* 10\.4\.0"), ("24.09", "8.9", r"8\.9; .* 8\.6")],
)
def test_another_machine_than_the_targets_is_rejected(
    tmp_path, monkeypatch, settle, release, capability, value
):
    simulated_machine(tmp_path / "machine", monkeypatch, release=release, capability=capability)
    with pytest.raises(EngineError, match=value):
        settle(lookup(tmp_path / "graph"), extra=VARYING)


@pytest.mark.parametrize("release", ["24.03", "24.09"])
def test_error_is_shown_instead_of_help(release, tmp_path, monkeypatch):
    here = simulated_machine(tmp_path / "machine", monkeypatch, release=release, capability="8.6")
    wrong = order((10, 4, 0), graph=lookup(tmp_path / "graph").file, precision="fp32", profiles=[])
    make = replace(builder(here, tmp_path), release=RELEASES[release])
    with pytest.raises(EngineError, match="ids would") as caught:
        make.build(wrong, tmp_path / "plan")
    assert "--option" not in caught.value.message


def test_unsupported_options_of_a_release_are_reported_with_their_line(tmp_path, machine_here, settle):
    with pytest.raises(InvalidFilesError) as caught:
        settle(lookup(tmp_path / "graph"), extra="tensorrt: {portability: same-capability}\n")
    (violation,) = caught.value.violations
    assert (violation.field, violation.line) == ("tensorrt.portability", 8)
    assert "TensorRT 10.4.0" in violation.message


def test_damaged_timing_cache_is_ignored(tmp_path, machine_here):
    lines: list[str] = []
    make = builder(machine_here, tmp_path, lines)
    engine = order((10, 4, 0), graph=lookup(tmp_path / "graph").file)
    make.build(engine, tmp_path / "first")
    assert any("A new timing cache" in line for line in lines)
    lines.clear()
    make.build(engine, tmp_path / "second")
    assert any("timing cache" in line and "bytes" in line for line in lines)
    (cache,) = (tmp_path / "files" / "timing").iterdir()
    assert cache.name == "10.4.0-sm86-NVIDIA-A10G.cache"
    cache.write_text("damaged")
    make.build(engine, tmp_path / "third")
    assert cache.read_text() != "damaged"


def test_the_timing_cache_is_kept_for_another_gpu(tmp_path, machine_here):
    graph = lookup(tmp_path / "graph")
    make = builder(machine_here, tmp_path)
    make.build(order((10, 4, 0), graph=graph.file), tmp_path / "first")
    (cache,) = (tmp_path / "files" / "timing").iterdir()
    other = cache.with_name(cache.name.replace("sm86", "sm89"))
    cache.rename(other)
    with pytest.raises(EngineError, match=r"compute capability 8\.6"):
        replace(make, capability="8.9").build(order((10, 4, 0), graph=graph.file), tmp_path / "second")
    assert other.is_file()
    assert len(machine_here.commands()) == 3


def test_engines_of_several_gpus_become_one_artifact(tmp_path, s3, monkeypatch, settle):
    both = VARYING.replace("{profiles", '{capabilities: ["8.6", "8.9"], profiles')
    s3.create_bucket(Bucket="caches")
    shared = "s3://caches/builds"
    simulated_machine(tmp_path / "a10g", monkeypatch, release="24.09", capability="8.6")
    with pytest.raises(EngineError, match=r"8\.9"):
        settle(lookup(tmp_path / "a" / "graph"), extra=both, shared=shared, cache="one")
    simulated_machine(tmp_path / "l4", monkeypatch, release="24.09", capability="8.9")
    servable = settle(
        lookup(tmp_path / "b" / "graph"), target="sm89-24.09", extra=both, shared=shared, cache="two"
    )
    assert servable.engines == {"8.6": "model-sm86.plan", "8.9": "model-sm89.plan"}
    assert sorted(file.name for file in servable.folder.iterdir()) == sorted(servable.engines.values())


def test_unavailable_shared_files_are_ignored(tmp_path, s3):
    lines: list[str] = []
    files = SharedFiles(tmp_path / "a", "s3://caches", lines.append)
    assert not files.fetch("x").exists()
    (tmp_path / "a" / "x").write_text("mine")
    files.share("x")
    assert len(lines) == 2
    s3.create_bucket(Bucket="caches")
    files.share("x")
    other = SharedFiles(tmp_path / "b", "s3://caches", lines.append)
    assert other.fetch("x").read_text() == "mine"
    s3.put_object(Bucket="caches", Key="x", Body=b"yours", Metadata={"sha256": "0"})
    assert other.fetch("x").read_text() == "mine"
    assert "skipped: checksum mismatch" in lines[-1]
    with pytest.raises(UsageError, match="a/folder"):
        SharedFiles(tmp_path, "a/folder", lines.append).fetch("x")


def builder(here: Machine, tmp_path: Path, lines: list[str] | None = None) -> EngineBuilder:
    notify = ([] if lines is None else lines).append
    return EngineBuilder(
        trtexec=here.trtexec,
        release=RELEASES["24.09"],
        capability="8.6",
        gpu="NVIDIA A10G",
        files=SharedFiles(tmp_path / "files", None, notify),
        notify=notify,
    )


def text_spec() -> ModelSpec:
    facts = {
        "name": "tiny",
        "description": "Tiny.",
        "source": "file://weights",
        "recipe": {"kind": "text-embedding", "format": "tensorrt", "max_length": 24},
        "batching": {"max_batch": 8},
        "test_inputs": ["a text"],
    }
    return ModelSpec.model_validate_json(json.dumps(facts))


IDS = (TensorSpec(name="ids", datatype="INT64", shape=(-1,)),)


def with_profiles(spec: ModelSpec, *profiles: Profile) -> ModelSpec:
    return spec.model_copy(update={"tensorrt": TensorRT(profiles=profiles)})
