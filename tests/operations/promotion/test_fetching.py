"""Fetching from a source that does not answer, or that somebody overwrites meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest
from botocore.exceptions import ReadTimeoutError

from tests.operations.changing_s3 import change_after
from tests.operations.two_accounts import make_manifest, two_accounts
from tritonstack.base.error_kinds import DamagedArtifactError
from tritonstack.base.errors import TritonstackError
from tritonstack.operations.artifacts import StoredArtifact
from tritonstack.operations.aws import Cloud
from tritonstack.operations.promotion.fetching import fetch_artifact
from tritonstack.operations.promotion.layer_reading import PAUSES_S
from tritonstack.records.locks import entry_of
from tritonstack.records.manifests import ARCHIVE_NAME


class Silent:
    """A cloud whose S3 is unreachable."""

    def client(self, _service: str) -> Silent:
        return self

    def head_object(self, **_: Any) -> None:
        raise ReadTimeoutError(endpoint_url="https://s3.eu-west-1.amazonaws.com")


def test_a_source_that_never_answers_is_reported(tmp_path):
    manifest = make_manifest("minilm", b"content", spec_hash="ab" * 32)
    source = StoredArtifact(cast("Cloud", Silent()), "bucket", "minilm", "cpu", entry_of(manifest))
    pauses: list[float] = []
    with pytest.raises(TritonstackError) as caught:
        fetch_artifact(source, manifest, store=tmp_path, on_bytes=lambda _: None, sleep=pauses.append)
    assert caught.value.code == "TS413"
    assert pauses == list(PAUSES_S)


class Breaking:
    """A cloud whose S3 sends one byte per connection, and sometimes none."""

    def __init__(self, content: bytes, silent: set[int]) -> None:
        self._content = content
        self._silent = silent
        self._calls = 0

    def client(self, _service: str) -> Breaking:
        return self

    def head_object(self, **_: Any) -> dict[str, Any]:
        return {"ContentLength": len(self._content), "ETag": "1"}

    def get_object(self, *, Range: str, **_: Any) -> dict[str, Any]:  # noqa: N803 - S3's own name
        first, self._calls = int(Range.removeprefix("bytes=").rstrip("-")), self._calls + 1
        if self._calls in self._silent:
            raise ReadTimeoutError(endpoint_url="s3")
        return {"Body": Piece(self._content[first : first + 1])}


@dataclass
class Piece:
    content: bytes

    def iter_chunks(self, _size: int) -> Iterator[bytes]:
        yield self.content


def test_progress_renews_the_patience_with_a_source(tmp_path):
    content = b"content of an archive"
    manifest = make_manifest("minilm", content, spec_hash="ab" * 32)
    cloud = cast("Cloud", Breaking(content, silent={1, 2, 3, 8, 9, 10, 11}))
    source = StoredArtifact(cloud, "bucket", "minilm", "cpu", entry_of(manifest))
    pauses: list[float] = []
    folder = fetch_artifact(source, manifest, store=tmp_path, on_bytes=lambda _: None, sleep=pauses.append)
    assert (folder / ARCHIVE_NAME).read_bytes() == content
    slow = [pause for pause in pauses if pause > PAUSES_S[0]]
    assert slow == [*PAUSES_S[1:3], *PAUSES_S[1:5]]


@pytest.mark.parametrize("fetched", [0, 4])
def test_an_archive_that_is_replaced_after_the_check_is_not_downloaded(
    project, tmp_path, monkeypatch, fetched
):
    """Before the first byte, also of a resumed download: the final checksum comes after gigabytes."""
    with two_accounts(project) as accounts:
        manifest = accounts.build("minilm", b"content")
        entry = accounts.lock("dev").models["minilm"]["cpu"]
        source = StoredArtifact(accounts.dev, accounts.bucket("dev"), "minilm", "cpu", entry)
        place = {"Bucket": source.bucket, "Key": f"{source.prefix}/model.tar.gz"}
        s3, note = accounts.dev.client("s3"), {"sha256": manifest.digest}
        partial = tmp_path / ".fetching" / "minilm" / entry.digest / "artifact" / "model.tar.gz"
        partial.parent.mkdir(parents=True)
        partial.write_bytes(b"content"[:fetched])
        received: list[int] = []
        with monkeypatch.context() as patched:
            change_after(
                patched,
                "HeadObject",
                "model.tar.gz",
                lambda: s3.put_object(**place, Body=b"CONTENT", Metadata=note),
            )
            with pytest.raises(DamagedArtifactError):
                fetch_artifact(source, manifest, store=tmp_path, on_bytes=received.append)
        assert sum(received) == fetched
        s3.put_object(**place, Body=b"content", Metadata=note)
        folder = fetch_artifact(source, manifest, store=tmp_path, on_bytes=received.append)
        assert (folder / "model.tar.gz").read_bytes() == b"content"
