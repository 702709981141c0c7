"""The lock is written by several builds at once."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from catalog.locks import add_to_lock, load_lock
from catalog.manifests import Manifest, ServedBy

WRITERS, ARTIFACTS = 3, 8


def manifest(model: str) -> Manifest:
    return Manifest(
        model=model,
        entry_model=model,
        digest="ab" * 32,
        target="cpu",
        spec_hash="cd" * 32,
        source="",
        source_revision="1",
        weights_sha256="ef" * 32,
        precision="fp32",
        inputs=(),
        outputs=(),
        archive_bytes=1,
        unpacked_bytes=1,
        files=(),
        parity=(),
        latency=(),
        served_by=ServedBy(kind="embedded", triton="2.51.0", python="3.11.7"),
        tools={},
    )


def write(file: Path, writer: int) -> None:
    for number in range(ARTIFACTS):
        add_to_lock(file, [manifest(f"m{writer}-{number}")])


def test_nothing_that_another_build_wrote_meanwhile_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "environments/dev.lock.yaml"
    processes = multiprocessing.get_context("fork")
    writers = [processes.Process(target=write, args=(file, number)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(load_lock(file).record.models) == WRITERS * ARTIFACTS
    assert [path.name for path in file.parent.iterdir()] == [file.name]
