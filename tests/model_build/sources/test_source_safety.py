"""Sources must not lie, run code, fill the disk, change during a fetch, or leak a secret."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from safetensors.numpy import save

from model_build import resources
from model_build.errors import ModelBuildError, ResourceError, SourceError, UnsafeWeightsError
from model_build.resources import available_memory, require_memory
from model_build.secrets import redact
from model_build.sources import fetch_source, file_selection
from model_build.sources.base import check_listing
from model_build.sources.object_store import _Part
from model_build.sources.safe_weights import check_weights
from tests.moto_aws import simulated_aws
from tritonstack.spec.models.model import ModelSpec

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
    return ModelSpec.model_validate_json(
        json.dumps(
            {
                "name": "m",
                "description": "d",
                "source": "file://x",
                "recipe": recipe,
                "test_inputs": [tensors if "text" not in recipe["kind"] else "words"],
                **more,
            }
        )
    )


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
        (
            WEIGHTS[:-10],
            rf"truncated: got {len(WEIGHTS) - 10} bytes, expected {len(WEIGHTS)} according to its header",
        ),
        (WEIGHTS + b"x", "is too long"),
        (WEIGHTS[:20], "truncated or not a safetensors file"),
        (b"", "truncated or not a safetensors file"),
        (b"\xff" * 64, "truncated or not a safetensors file"),
        ((8).to_bytes(8, "little") + b"not json", "is not JSON"),
        ((8).to_bytes(8, "little") + b"[1, 2  ]", "does not list tensors"),
        (header({"shape": [17]}), "the header of model.safetensors is wrong"),
        (header({"dtype": "F99"}), "the header of model.safetensors is wrong"),
        (header({"data_offsets": [8, 68]}), "the header of model.safetensors is wrong"),
        (header({"data_offsets": "all"}), "the header of model.safetensors is wrong|truncated|too long"),
    ],
)
def test_truncated_or_inconsistent_weights_are_rejected(tmp_path, content, message):
    write(tmp_path / "weights", model__safetensors=content, config__json=b"{}")
    with pytest.raises(SourceError, match=message):
        fetch_source("file://weights", model_folder=tmp_path, cache_dir=tmp_path)


def test_an_index_that_names_a_missing_part(tmp_path):
    index = json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}).encode()
    folder = write(tmp_path, **{"model-1__safetensors": WEIGHTS, "model__safetensors__index__json": index})
    with pytest.raises(SourceError, match=r"names missing files: model-2\.safetensors"):
        check_weights([folder / "model-1.safetensors"])


@pytest.mark.parametrize("index", ["model.safetensors.index.json", "pytorch_model.bin.index.json"])
@pytest.mark.parametrize("part", ["../other.safetensors", "{}/other.safetensors", "inner/other.safetensors"])
def test_an_index_that_names_files_outside_its_folder(tmp_path, index, part):
    for folder in (tmp_path, tmp_path / "weights" / "inner"):
        write(folder, other__safetensors=WEIGHTS)
    folder = write(tmp_path / "weights", **{"model-1__safetensors": WEIGHTS, "config__json": b"{}"})
    (folder / index).write_text(json.dumps({"weight_map": {"a": part.format(tmp_path)}}))
    with pytest.raises(SourceError, match=rf"{index} names files outside its folder: .*other\.safetensors"):
        fetch_source("file://weights", model_folder=tmp_path, cache_dir=tmp_path)


@pytest.mark.parametrize("content", ["[]", "{}", '{"weight_map": {"a": 5}}', '{"weight_map": ["a"]}', "no"])
def test_invalid_index(tmp_path, content):
    folder = write(tmp_path, **{"model-1__safetensors": WEIGHTS})
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(SourceError, match="has no valid weight map:"):
        check_weights([folder / "model-1.safetensors"])


def test_an_index_of_pickles_that_were_not_fetched(tmp_path):
    folder = write(tmp_path, model__safetensors=WEIGHTS)
    index = {"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    check_weights([folder / "model.safetensors"])


def test_pickles_are_fetched_only_if_trusted(tmp_path):
    recipe = {"kind": "text-embedding"}
    trusted = spec(recipe, trust={"pickle": "made by ourselves last year"})
    write(tmp_path / "weights", pytorch_model__bin=b"pickle", training_args__bin=b"pickle too")
    with pytest.raises(UnsafeWeightsError):
        fetch_source(
            "file://weights",
            model_folder=tmp_path,
            cache_dir=tmp_path,
            selection=file_selection(spec(recipe)),
        )
    wanted = file_selection(trusted)
    fetch_source("file://weights", model_folder=tmp_path, cache_dir=tmp_path, selection=wanted)
    assert wanted.among(tmp_path / "weights") == ["pytorch_model.bin"]


def test_code_is_fetched_only_if_trusted():
    recipe = {"kind": "text-embedding"}
    assert not file_selection(spec(recipe)).holds("modeling_own.py")
    assert file_selection(spec(recipe, trust={"remote_code": "read by ourselves"})).holds("modeling_own.py")


def test_python_model_code_outside_its_folder_needs_trust():
    far = {"source": "s3://models/m/3"}
    assert not file_selection(spec({"kind": "python"}, **far)).holds("helpers.py")
    trusted = spec({"kind": "python"}, **far, trust={"remote_code": "written by our own team"})
    assert file_selection(trusted).holds("helpers.py")


def test_the_hubs_copies_of_weights_for_other_frameworks_are_not_packed():
    copies = ("tf_model.h5", "tf_model-00001-of-00002.h5", "flax_model.msgpack", "rust_model.ot")
    hub = file_selection(spec({"kind": "python"}, source=f"hf://openai/whisper-small@{'a' * 40}"))
    assert [name for name in (*copies, "model.safetensors", "vocab.json") if hub.holds(name)] == [
        "model.safetensors",
        "vocab.json",
    ]
    ours = file_selection(spec({"kind": "python"}, source="s3://models/m/3"))
    assert all(ours.holds(name) for name in copies)


def test_weights_in_subfolders_are_not_selected():
    wanted = file_selection(spec({"kind": "text-embedding"}))
    assert wanted.holds("1_Pooling/config.json")
    assert not wanted.holds("original/consolidated.safetensors")


@pytest.mark.parametrize(
    ("recipe", "held", "left"),
    [
        (
            {"kind": "onnx", "file": "onnx/m.onnx"},
            ["onnx/m.onnx", "onnx/m.onnx.data", "onnx/m.onnx_data"],
            "m.onnx",
        ),
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
    ],
)
def test_files_of_supplied_models(recipe, held, left):
    wanted = file_selection(spec(recipe))
    assert all(wanted.holds(name) for name in held)
    assert not wanted.holds(left)


def test_a_file_missing_from_the_source(tmp_path):
    write(tmp_path / "weights", churn__json=b"{}", notes__txt=b"")
    wanted = file_selection(spec({"kind": "trees", "file": "chrun.json"}))
    with pytest.raises(
        SourceError, match=r"file not found: chrun\.json \(found: churn\.json, notes\.txt\)"
    ) as e:
        fetch_source("file://weights", model_folder=tmp_path, cache_dir=tmp_path, selection=wanted)
    assert "did you mean 'churn.json'?" in str(e.value)


def test_external_data_of_a_graph_is_part_of_its_hash(tmp_path):
    wanted = file_selection(spec({"kind": "onnx", "file": "m.onnx"}))
    write(tmp_path / "w", m__onnx=b"graph", m__onnx__data=b"one")

    def weights() -> str:
        return fetch_source(
            "file://w", model_folder=tmp_path, cache_dir=tmp_path, selection=wanted
        ).weights_sha256

    first = weights()
    write(tmp_path / "w", m__onnx__data=b"two")
    assert weights() != first


@pytest.mark.parametrize("name", ["../x.json", "a b.json", "$(x).json", "/etc/x.json"])
def test_names_that_are_not_safe(name, tmp_path):
    with pytest.raises(SourceError, match="is not a safe file name"):
        check_listing({name: 1}, source="hf://a/b@c", into=tmp_path)


def test_a_source_of_too_many_files(tmp_path):
    with pytest.raises(SourceError, match="expected at most 5000 model files, got 5001"):
        check_listing({f"{number}.json": 1 for number in range(5001)}, source="s3://b/p", into=tmp_path)


def test_a_source_larger_than_the_disk(tmp_path):
    with pytest.raises(ResourceError, match=r"s3://b/p needs \d+\.\d GB in .+ free: \d+\.\d [GM]B"):
        check_listing({"x.safetensors": 1 << 60}, source="s3://b/p", into=tmp_path / "not" / "yet")


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
    with pytest.raises(ResourceError, match=r"the model needs about 12\.3 GB of memory; available: 1\.1 GB"):
        require_memory(12_300_000_000, purpose="the model")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with simulated_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="weights")
        client.put_object(Bucket="weights", Key="m/model.safetensors", Body=WEIGHTS)
        yield client


def test_an_object_that_changes_between_listing_and_download(bucket, tmp_path, monkeypatch):
    class Late(_Part):
        @property
        def range(self) -> str:
            bucket.put_object(Bucket="weights", Key="m/model.safetensors", Body=WEIGHTS[::-1])
            return super().range

    monkeypatch.setattr("model_build.sources.object_store._Part", Late)
    with pytest.raises(SourceError, match="an object changed while it was fetched"):
        fetch_source("s3://weights/m", model_folder=tmp_path, cache_dir=tmp_path)
    assert list((tmp_path / "s3").iterdir()) == []


def test_object_that_differs_from_its_listing(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr("model_build.sources.object_store.os.pwrite", lambda *_: 0)
    with pytest.raises(SourceError, match="checksum mismatch for"):
        fetch_source("s3://weights/m", model_folder=tmp_path, cache_dir=tmp_path)


def test_incomplete_weights_in_a_bucket_are_rejected_before_they_are_hashed(bucket, tmp_path, monkeypatch):
    def hashed(*_: object) -> None:
        raise AssertionError("hashed before it was checked")

    monkeypatch.setattr("model_build.sources.object_store.add_file", hashed)
    bucket.put_object(Bucket="weights", Key="m/model.safetensors", Body=WEIGHTS[:-1])
    with pytest.raises(SourceError, match=r"model\.safetensors is truncated"):
        fetch_source("s3://weights/m", model_folder=tmp_path, cache_dir=tmp_path)


def test_large_objects_are_fetched_in_parts(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr("model_build.sources.object_store.PART_BYTES", 13)
    found = fetch_source("s3://weights/m", model_folder=tmp_path, cache_dir=tmp_path)
    assert (found.folder / "model.safetensors").read_bytes() == WEIGHTS


def test_pickles_in_a_bucket_are_named(bucket, tmp_path):
    bucket.put_object(Bucket="weights", Key="p/pytorch_model.bin", Body=b"pickle")
    with pytest.raises(UnsafeWeightsError, match=r"pytorch_model\.bin, a pickle"):
        fetch_source("s3://weights/p", model_folder=tmp_path, cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("text", "shown"),
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
def test_secrets_are_not_shown(text, shown):
    environment = {
        "AWS_SECRET_ACCESS_KEY": "sesame-open-now!",
        "AWS_SHARED_CREDENTIALS_FILE": "/home/me/.aws/credentials",
        "API_TOKEN": "json",
    }
    assert redact(text, environment) == shown


def test_no_error_of_a_build_reveals_a_secret(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "sesame-open-now!")
    error = ModelBuildError("pip said https://u:p@h/ sesame-open-now!", remedy="not sesame-open-now!")
    assert str(error) == "pip said https://***@h/ ***\n  help: not ***"
