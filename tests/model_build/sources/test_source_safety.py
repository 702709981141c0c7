"""Sources must not lie, run code, fill the disk, change during a fetch, or leak a secret."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from model_build import resources
from model_build.errors import ModelBuildError, ResourceError, SourceError, UnsafeWeightsError, redact
from model_build.resources import available_memory, require_memory
from model_build.sources import fetch_source, file_selection
from model_build.sources.base import check_listing, check_weights
from model_build.sources.object_store import _Part
from tritonstack.files.model.model import ModelSpec

WEIGHTS = save({"weight": np.arange(16, dtype=np.float32), "bias": np.ones(2, np.float16)})


def write(folder: Path, **files: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return folder


def spec(recipe: dict[str, Any], **more: Any) -> ModelSpec:
    tensors: Any = {"inputs": {"x": [1.0]}}
    if recipe.get("input") in ("text", "image"):
        tensors = {recipe["input"]: "a.png"}
    tests = [tensors if "text" not in recipe["kind"] else "words"]
    facts = {"name": "m", "description": "d", "source": "file://x", "recipe": recipe, "test_inputs": tests}
    return ModelSpec.model_validate_json(json.dumps({**facts, **more}))


def header(change: dict[str, Any]) -> bytes:
    length = int.from_bytes(WEIGHTS[:8], "little")
    entries = json.loads(WEIGHTS[8 : 8 + length])
    entries["weight"].update(change)
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + WEIGHTS[8 + length :]


def test_intact_weights_pass(tmp_path):
    check_weights([write(tmp_path, model__safetensors=WEIGHTS) / "model.safetensors"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (WEIGHTS[:-10], rf"truncated: got {len(WEIGHTS) - 10} bytes, expected {len(WEIGHTS)}"),
        (WEIGHTS + b"x", "too long"),
        *((content, "truncated or") for content in (WEIGHTS[:20], b"", b"\xff" * 64)),
        ((8).to_bytes(8, "little") + b"not json", "is not JSON"),
        ((8).to_bytes(8, "little") + b"[1, 2  ]", "list tensors"),
        (header({"shape": [17]}), "header of"),
        (header({"dtype": "F99"}), "header of"),
        (header({"data_offsets": [8, 68]}), "header of"),
        (header({"data_offsets": "all"}), "header of|truncated|too long"),
    ],
)
def test_truncated_or_inconsistent_weights_are_rejected(tmp_path, content, message):
    write(tmp_path / "weights", model__safetensors=content, config__json=b"{}")
    with pytest.raises(SourceError, match=message):
        fetch_source("file://weights", model_folder=tmp_path, cache_dir=tmp_path)


def test_an_index_that_names_a_missing_part(tmp_path):
    index = json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}).encode()
    folder = write(tmp_path, **{"model-1__safetensors": WEIGHTS, "model__safetensors__index__json": index})
    with pytest.raises(SourceError, match=r"model-2\.safetensors"):
        check_weights([folder / "model-1.safetensors"])


@pytest.mark.parametrize("index", ["model.safetensors.index.json", "pytorch_model.bin.index.json"])
@pytest.mark.parametrize("part", ["../other.safetensors", "{}/other.safetensors", "inner/other.safetensors"])
def test_an_index_that_names_files_outside_its_folder(tmp_path, index, part):
    for folder in (tmp_path, tmp_path / "weights" / "inner"):
        write(folder, other__safetensors=WEIGHTS)
    folder = write(tmp_path / "weights", **{"model-1__safetensors": WEIGHTS, "config__json": b"{}"})
    (folder / index).write_text(json.dumps({"weight_map": {"a": part.format(tmp_path)}}))
    with pytest.raises(SourceError, match=rf"{index} .*other\.safetensors"):
        fetch_source("file://weights", model_folder=tmp_path, cache_dir=tmp_path)


@pytest.mark.parametrize("content", ["[]", "{}", '{"weight_map": {"a": 5}}', '{"weight_map": ["a"]}', "no"])
def test_invalid_index(tmp_path, content):
    folder = write(tmp_path, **{"model-1__safetensors": WEIGHTS})
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(SourceError, match="weight map:"):
        check_weights([folder / "model-1.safetensors"])


def test_an_index_of_pickles_that_were_not_fetched(tmp_path):
    folder = write(tmp_path, model__safetensors=WEIGHTS)
    index = {"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    check_weights([folder / "model.safetensors"])


def test_pickles_are_fetched_only_if_trusted(tmp_path):
    recipe = {"kind": "text-embedding"}
    safe = file_selection(spec(recipe))
    trusting = file_selection(spec(recipe, trust={"pickle": "made by ourselves"}))
    write(tmp_path / "weights", pytorch_model__bin=b"pickle", training_args__bin=b"pickle too")
    with pytest.raises(UnsafeWeightsError):
        fetch_source("file://weights", model_folder=tmp_path, cache_dir=tmp_path, selection=safe)
    fetch_source("file://weights", model_folder=tmp_path, cache_dir=tmp_path, selection=trusting)
    assert trusting.among(tmp_path / "weights") == ["pytorch_model.bin"]


@pytest.mark.parametrize(
    ("kind", "more", "file"),
    [
        ("text-embedding", {}, "modeling_own.py"),
        ("python", {"source": "s3://models/m/3"}, "helpers.py"),  # outside of the model's folder
    ],
)
def test_code_is_fetched_only_if_trusted(kind, more, file):
    assert not file_selection(spec({"kind": kind}, **more)).holds(file)
    trusted = spec({"kind": kind}, **more, trust={"remote_code": "read by ourselves"})
    assert file_selection(trusted).holds(file)


def test_the_hubs_copies_of_weights_for_other_frameworks_are_not_packed():
    copies = ("tf_model.h5", "tf_model-00001-of-00002.h5", "flax_model.msgpack", "rust_model.ot")
    hub = file_selection(spec({"kind": "python"}, source=f"hf://openai/whisper-small@{'a' * 40}"))
    assert [name for name in (*copies, "model.safetensors", "vocab.json") if hub.holds(name)] == [
        "model.safetensors",
        "vocab.json",
    ]
    ours = file_selection(spec({"kind": "python"}, source="s3://models/m/3"))
    assert all(ours.holds(name) for name in copies)


@pytest.mark.parametrize(
    ("recipe", "selected", "other"),
    [
        ({"kind": "onnx", "file": "o/m.onnx"}, ["o/m.onnx", "o/m.onnx.data", "o/m.onnx_data"], "m.onnx"),
        (
            {"kind": "onnx", "file": "onnx/m.onnx", "input": "text"},
            ["onnx/m.onnx", "onnx/m.onnx.data", "tokenizer.json", "vocab.txt", "spiece.model"],
            "model.safetensors",
        ),
        (
            {"kind": "torchscript", "file": "m.pt", "input": "image", "processor": "images"},
            ["m.pt", "images/preprocessor_config.json"],
            "config.json",
        ),
        ({"kind": "trees", "file": "m.ubj"}, ["m.ubj"], "m.json"),
        ({"kind": "torchscript", "file": "m.pt"}, ["m.pt"], "n.pt"),
        ({"kind": "python"}, ["vocabulary.csv", "a/b.npy"], "model.pkl"),
        ({"kind": "python"}, ["x.onnx", "helpers.py"], "model.pt"),
        ({"kind": "text-embedding"}, ["1_Pooling/config.json"], "original/consolidated.safetensors"),
    ],
)
def test_selected_files(recipe, selected, other):
    selection = file_selection(spec(recipe))
    assert all(selection.holds(name) for name in selected)
    assert not selection.holds(other)


def test_a_file_missing_from_the_source(tmp_path):
    write(tmp_path / "weights", churn__json=b"{}", notes__txt=b"")
    selection = file_selection(spec({"kind": "trees", "file": "chrun.json"}))
    with pytest.raises(SourceError, match=r"chrun\.json") as caught:
        fetch_source("file://weights", model_folder=tmp_path, cache_dir=tmp_path, selection=selection)
    assert "'churn.json'?" in str(caught.value.remedy)


def test_external_data_of_a_graph_is_part_of_its_hash(tmp_path):
    selection = file_selection(spec({"kind": "onnx", "file": "m.onnx"}))
    write(tmp_path / "w", m__onnx=b"graph", m__onnx__data=b"one")

    def weights() -> str:
        return fetch_source(
            "file://w", model_folder=tmp_path, cache_dir=tmp_path, selection=selection
        ).weights_sha256

    first = weights()
    write(tmp_path / "w", m__onnx__data=b"two")
    assert weights() != first


@pytest.mark.parametrize(
    ("listing", "error", "message"),
    [
        *(
            ({name: 1}, SourceError, "safe file name")
            for name in ("../x.json", "a b.json", "$(x).json", "/etc/x")
        ),
        ({f"{number}.json": 1 for number in range(5001)}, SourceError, "5000 .*5001"),
        ({"x.safetensors": 1 << 60}, ResourceError, r"s3://b/p needs \d+\.\d GB in .+ free: \d+\.\d [GM]B"),
    ],
    ids=["above", "space", "shell", "absolute", "many", "large"],
)
def test_listings_that_are_rejected(listing, error, message, tmp_path):
    with pytest.raises(error, match=message):
        check_listing(listing, source="s3://b/p", into=tmp_path / "not" / "yet")


def test_memory_is_read_from_the_kernel_and_the_container(tmp_path, monkeypatch):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    monkeypatch.setattr(resources, "MEMORY_INFO", meminfo)
    monkeypatch.setattr(resources, "CGROUP", tmp_path)
    assert available_memory() == 8_192_000_000
    write(tmp_path, memory__max=b"max\n", memory__current=b"5\n", memory__stat=b"inactive_file 0\n")
    assert available_memory() == 8_192_000_000
    used = {"memory__current": b"3000000000", "memory__stat": b"anon 1\ninactive_file 500000000\n"}
    write(tmp_path, memory__max=b"4000000000\n", **used)
    assert available_memory() == 1_500_000_000
    older = {"memory__usage_in_bytes": b"3000000000", "memory__stat": b"total_inactive_file 100000000\n"}
    write(tmp_path / "memory", memory__limit_in_bytes=b"4000000000\n", **older)
    assert available_memory() == 1_100_000_000
    require_memory(1_100_000_000, purpose="the model")
    with pytest.raises(ResourceError, match=r"12\.3 GB .*1\.1 GB"):
        require_memory(12_300_000_000, purpose="the model")


@pytest.fixture
def bucket(s3: Any) -> Any:
    s3.create_bucket(Bucket="weights")
    s3.put_object(Bucket="weights", Key="m/model.safetensors", Body=WEIGHTS)
    return s3


def test_an_object_that_changes_between_listing_and_download(bucket, tmp_path, monkeypatch):
    class Late(_Part):
        @property
        def range(self) -> str:
            bucket.put_object(Bucket="weights", Key="m/model.safetensors", Body=WEIGHTS[::-1])
            return super().range

    monkeypatch.setattr("model_build.sources.object_store._Part", Late)
    with pytest.raises(SourceError, match="object changed"):
        fetch_source("s3://weights/m", model_folder=tmp_path, cache_dir=tmp_path)
    assert list((tmp_path / "s3").iterdir()) == []


@pytest.mark.parametrize("change", [lambda content: b"", lambda content: content[:-1] + b"?"])
def test_object_that_differs_from_its_listing(bucket, tmp_path, monkeypatch, change):
    write_at = os.pwrite
    monkeypatch.setattr(
        "model_build.sources.object_store.os.pwrite",
        lambda file, content, begin: write_at(file, change(content), begin),
    )
    with pytest.raises(SourceError, match="checksum mismatch for"):
        fetch_source("s3://weights/m", model_folder=tmp_path, cache_dir=tmp_path)


def test_large_objects_are_fetched_in_parts(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr("model_build.sources.object_store.PART_BYTES", 13)
    source = fetch_source("s3://weights/m", model_folder=tmp_path, cache_dir=tmp_path)
    assert (source.folder / "model.safetensors").read_bytes() == WEIGHTS


def test_pickles_in_a_bucket_are_named(bucket, tmp_path):
    bucket.put_object(Bucket="weights", Key="p/pytorch_model.bin", Body=b"pickle")
    with pytest.raises(UnsafeWeightsError, match=r"pytorch_model\.bin"):
        fetch_source("s3://weights/p", model_folder=tmp_path, cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Looking in https://me:s3cret@host/simple", "Looking in https://***@host/simple"),
        (
            "GET https://b/x?X-Amz-Signature=ab12&X-Amz-Expires=5",
            "GET https://b/x?X-Amz-Signature=***&X-Amz-Expires=5",
        ),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("token hf_abcdefghijklmnopqrstuv was rejected", "token *** was rejected"),
        ("key AKIAABCDEFGHIJKLMNOP", "key ***"),
        ("the value is sesame-open-now!", "the value is ***"),
        ("a tokenizer.json at /home/me/.aws/credentials", "a tokenizer.json at /home/me/.aws/credentials"),
    ],
)
def test_secrets_are_not_shown(text, expected):
    environment = {
        "AWS_SECRET_ACCESS_KEY": "sesame-open-now!",
        "AWS_SHARED_CREDENTIALS_FILE": "/home/me/.aws/credentials",
        "API_TOKEN": "json",
    }
    assert redact(text, environment) == expected


def test_no_error_of_a_build_reveals_a_secret(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "sesame-open-now!")
    error = ModelBuildError("pip https://u:p@h/ sesame-open-now!", remedy="not sesame-open-now!")
    assert (error.message, error.remedy) == ("pip https://***@h/ ***", "not ***")
