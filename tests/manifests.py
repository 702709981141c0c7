"""Build manifests for tests; each test sets only the fields it needs."""

from __future__ import annotations

from typing import Any

from tritonstack.files.records.manifests import LatencyReport, Manifest, ParityReport, ServedBy


def manifest(model: str, **changes: Any) -> Manifest:
    usual = Manifest(
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
    return usual.model_copy(update=changes)


def measured(*, cosine: float = 0.9999, p99: float = 4.5) -> dict[str, Any]:
    """Return what a build's check found, as changes of a manifest."""
    graph = ParityReport(stage="graph", cases=8, min_cosine=0.5, max_absolute_error=0.5)
    served = ParityReport(stage="served", cases=8, min_cosine=cosine, max_absolute_error=1e-07)
    batches = [LatencyReport(batch=size, requests=9, p50_ms=1.0, p99_ms=p99 * size) for size in (1, 32)]
    return {"parity": (graph, served, served), "latency": tuple(batches)}
