"""Each kind of source, against the real service or a strict stand-in."""

import hashlib
import importlib.metadata
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from huggingface_hub import constants
from safetensors.numpy import save

from model_build.errors import SourceError, UnsafeWeightsError
from model_build.sources import fetch_source
from model_build.sources.base import fetched
from model_build.sources.hugging_face import fetch_from_hub
from tests.model_build.environments.wheels import write_wheel

WEIGHTS = save({"weight": np.arange(4, dtype=np.float32)})
OTHERS = save({"weight": np.ones(4, dtype=np.float32)})
FILES = {
    "config.json": b'{"model_type": "bert"}',
    "model.safetensors": WEIGHTS,
    "tokenizer.json": b"{}",
    "pytorch_model.bin": b"pickle",
    "tf_model.h5": b"other",
    "README.md": b"# model",
}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def fill(folder: Path, files: dict[str, bytes] = FILES) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_folder_is_relative_to_the_model_file(tmp_path):
    fill(tmp_path / "weights")
    (tmp_path / "model").mkdir()
    source = fetch_source(
        "file://../weights", model_folder=tmp_path / "model", cache_dir=tmp_path, external=True
    )
    assert source.folder == tmp_path / "weights"
    assert source.weights_sha256 == hashlib.sha256(WEIGHTS).hexdigest()


def test_a_folder_revision_covers_the_read_files(tmp_path):
    folder = fill(tmp_path / "weights")

    def revision() -> str:
        return fetch_source("file://weights", model_folder=tmp_path, cache_dir=tmp_path).revision

    first = revision()
    (folder / "README.md").write_text("changed")
    assert revision() == first
    (folder / "config.json").write_text("{}")
    assert revision() != first


@pytest.mark.parametrize(
    ("files", "error", "name"),
    [
        ({"config.json": b"{}", "pytorch_model.bin": b"pickle"}, UnsafeWeightsError, "pytorch_model.bin"),
        ({"config.json": b"{}"}, SourceError, "config.json"),
    ],
)
def test_folders_without_safe_weights(tmp_path, files, error, name):
    fill(tmp_path / "weights", files)
    with pytest.raises(error, match=rf"safetensors.* \(found: {name}\)|{name}, a pickle"):
        fetch_source("file://weights", model_folder=tmp_path, cache_dir=tmp_path)


@pytest.fixture
def index(index: Path) -> Path:
    """A package index with one package."""
    write_wheel(index, "tiny-weights", "1.0", files={"tiny_weights/model/model.safetensors": WEIGHTS})
    return index


def test_a_package_is_cached_once(tmp_path, index):
    url = "package://tiny-weights==1.0/tiny_weights/model"
    source = fetch_source(url, model_folder=tmp_path, cache_dir=tmp_path / "cache")
    assert source.revision == "1.0"
    assert (source.folder / "model.safetensors").read_bytes() == WEIGHTS
    next(index.iterdir()).unlink()
    assert fetch_source(url, model_folder=tmp_path, cache_dir=tmp_path / "cache") == source
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("tiny-weights")


def test_a_folder_of_another_package_is_rejected(tmp_path, index):
    source = "package://tiny-weights==1.0/other/model"
    fetch_source(
        "package://tiny-weights==1.0/tiny_weights/model", model_folder=tmp_path, cache_dir=tmp_path / "cache"
    )
    fill(tmp_path / "cache/packages/tiny-weights-1.0/other/model")
    with pytest.raises(SourceError, match="'other/model'"):
        fetch_source(source, model_folder=tmp_path, cache_dir=tmp_path / "cache")


def test_a_package_whose_files_were_changed(tmp_path, index):
    source = "package://tiny-weights==1.0/tiny_weights/model"
    folder = fetch_source(source, model_folder=tmp_path, cache_dir=tmp_path / "cache").folder
    (folder / "model.safetensors").write_bytes(OTHERS)
    with pytest.raises(SourceError, match=r"model\.safetensors"):
        fetch_source(source, model_folder=tmp_path, cache_dir=tmp_path / "cache")
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    (folder / "extra.json").write_bytes(b"{}")
    with pytest.raises(SourceError, match=r"extra\.json"):
        fetch_source(source, model_folder=tmp_path, cache_dir=tmp_path / "cache")


def test_an_installed_package_is_used_in_place(tmp_path):
    version = importlib.metadata.version("transformers")
    with pytest.raises(SourceError, match=r"no \*\.safetensors file ") as caught:
        fetch_source(
            f"package://transformers=={version}/transformers", model_folder=tmp_path, cache_dir=tmp_path
        )
    assert "__init__.py" in caught.value.message or "found:" in caught.value.message
    assert list(tmp_path.iterdir()) == []


class Hub(BaseHTTPRequestHandler):
    """Answer as the Hub does for one model, and 404 to everything else."""

    paths: list[str]
    files: ClassVar[dict[str, bytes]] = FILES

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, *, body: bool) -> None:
        if body:
            self.paths.append(self.path)
        prefix = f"/org/tiny/resolve/{COMMIT}/"
        name = self.path.removeprefix(prefix)
        if self.path.startswith("/api/models/org/tiny/revision/main"):
            self._send_json({"id": "org/tiny", "sha": COMMIT}, body=body)
        elif self.path.startswith(f"/api/models/org/tiny/tree/{COMMIT}"):
            tree = [
                {"type": "file", "path": file, "oid": hashlib.sha1(content).hexdigest(), "size": len(content)}  # noqa: S324
                for file, content in self.files.items()
            ]
            self._send_json(tree, body=body)
        elif self.path.startswith(prefix) and name in self.files:
            etag = hashlib.sha256(FILES[name]).hexdigest()
            self._send(self.files[name], {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"'}, body=body)
        else:
            code = "RevisionNotFound" if self.path.startswith("/api/models/org/tiny/") else "RepoNotFound"
            self.send_response(404)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _send_json(self, answer: object, *, body: bool) -> None:
        self._send(json.dumps(answer).encode(), {"Content-Type": "application/json"}, body=body)

    def _send(self, content: bytes, headers: dict[str, str], *, body: bool) -> None:
        self.send_response(200)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    monkeypatch.setattr(constants, "HF_XET_CACHE", str(tmp_path / "xet-cache"))
    Hub.paths = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_hub_source_has_a_commit_and_no_pickle(hub):
    source = fetch_from_hub("org/tiny@main", endpoint=hub)
    assert source.revision == COMMIT
    assert {file.name for file in source.folder.iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert fetched(source, source="hf://org/tiny@main").weights_sha256 == hashlib.sha256(WEIGHTS).hexdigest()
    assert not any("pytorch_model" in path for path in Hub.paths)


def test_unreachable_hub_is_replaced_by_the_cache(hub):
    first = fetch_from_hub("org/tiny@main", endpoint=hub)
    assert first.others == ("pytorch_model.bin",)
    cached = fetch_from_hub("org/tiny@main", endpoint="http://127.0.0.1:1")
    assert cached == replace(first, others=None)


def test_a_hub_file_that_differs_from_its_listing(hub, monkeypatch):
    monkeypatch.setattr(Hub, "files", {**FILES, "model.safetensors": OTHERS})
    with pytest.raises(SourceError, match=r"mismatch .*model\.safetensors"):
        fetch_from_hub("org/tiny@main", endpoint=hub)


def test_a_hub_repository_with_only_a_pickle(hub, monkeypatch):
    monkeypatch.setattr(Hub, "files", {"pytorch_model.bin": FILES["pytorch_model.bin"]})
    with pytest.raises(UnsafeWeightsError, match=r"pytorch_model\.bin"):
        fetch_from_hub("org/tiny@main", endpoint=hub)
    assert not any("pytorch_model" in path for path in Hub.paths)


@pytest.fixture
def bucket(s3: Any) -> Any:
    s3.create_bucket(Bucket="weights")
    for name, content in FILES.items():
        s3.put_object(Bucket="weights", Key=f"models/tiny/{name}", Body=content)
    s3.put_object(Bucket="weights", Key="models/tiny2/model.safetensors", Body=b"neighbour")
    return s3


def test_bucket_gives_the_files_below_the_prefix(tmp_path, bucket):
    source = fetch_source("s3://weights/models/tiny", model_folder=tmp_path, cache_dir=tmp_path)
    assert {file.name for file in source.folder.iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert fetch_source("s3://weights/models/tiny/", model_folder=tmp_path, cache_dir=tmp_path) == source
    assert "pytorch_model.bin" in (source.others or ())
    bucket.put_object(Bucket="weights", Key="models/tiny/config.json", Body=b"{}")
    changed = fetch_source("s3://weights/models/tiny", model_folder=tmp_path, cache_dir=tmp_path)
    assert changed.revision != source.revision
    assert (changed.folder / "config.json").read_bytes() == b"{}"


def test_a_bucket_key_that_is_not_a_file_name(tmp_path, bucket):
    bucket.put_object(Bucket="weights", Key="models/tiny/../../x.json", Body=b"{}")
    with pytest.raises(SourceError, match="safe file name"):
        fetch_source("s3://weights/models/tiny", model_folder=tmp_path, cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("file://nowhere", "folder not found"),
        ("s3://absent/x", "bucket 'absent' does not exist"),
        ("s3://weights/none", "no model files below"),
        ("package://tiny-weights==1.0/tiny_weights/nothing", "has no folder"),
        ("package://tiny-weights==1.0/../../..", "has no folder"),
        ("package://tiny-weights==2.0/x", r"tiny-weights==2\.0"),
        ("hf://org/tiny@v9", "'v9'"),
        ("hf://org/other@main", "org/other does not exist"),
        ("hf://org/-tiny@main", "Repo id"),
        ("hf://org/tiny@main", "is unreachable"),
    ],
)
def test_what_a_source_lacks(tmp_path, bucket, hub, index, source, message):
    def fetch() -> object:
        if source.startswith("hf://"):
            endpoint = "http://127.0.0.1:1" if "unreachable" in message else hub
            return fetch_from_hub(source.removeprefix("hf://"), endpoint=endpoint)
        return fetch_source(source, model_folder=tmp_path, cache_dir=tmp_path / "cache")

    with pytest.raises(SourceError, match=message):
        fetch()
    assert not list(tmp_path.glob("cache/packages/.*"))


@pytest.mark.parametrize("kind", ["file", "hf", "package", "s3"])
def test_incomplete_weights_are_rejected_before_they_are_hashed(
    kind, tmp_path, hub, index, bucket, monkeypatch
):
    def hashed(*_: object) -> None:
        raise AssertionError("hashed before it was checked")

    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(WEIGHTS[:-1])
    monkeypatch.setattr(Hub, "files", {**FILES, "model.safetensors": WEIGHTS[:-1]})
    package = "package://tiny-weights==1.0/tiny_weights/model"
    cached = fetch_source(package, model_folder=tmp_path, cache_dir=tmp_path / "cache").folder
    (cached / "model.safetensors").write_bytes(WEIGHTS[:-1])
    bucket.put_object(Bucket="weights", Key="models/tiny/model.safetensors", Body=WEIGHTS[:-1])
    for module in ("local", "hugging_face", "object_store"):
        monkeypatch.setattr(f"model_build.sources.{module}.add_file", hashed)
    fetch = {
        "file": lambda: fetch_source("file://weights", model_folder=tmp_path, cache_dir=tmp_path),
        "hf": lambda: fetch_from_hub("org/tiny@main", endpoint=hub),
        "package": lambda: fetch_source(package, model_folder=tmp_path, cache_dir=tmp_path / "cache"),
        "s3": lambda: fetch_source("s3://weights/models/tiny", model_folder=tmp_path, cache_dir=tmp_path),
    }
    with pytest.raises(SourceError, match="truncated"):
        fetch[kind]()
