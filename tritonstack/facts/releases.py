"""Triton releases with SageMaker images, and their contents.

Sources: NVIDIA's release notes and AWS's image list; tests/reference compares the releases with the SageMaker
SDK's image table.
"""

from __future__ import annotations

from dataclasses import dataclass


def python_tag(python: str) -> str:
    """Return a Python version in wheel and target form: py310."""
    return "py" + python.replace(".", "")


@dataclass(frozen=True)
class OnnxSupport:
    """The newest ONNX version that a runtime reads: operator set and file format."""

    opset: int
    ir_version: int


_ONNX_SUPPORT = {
    "1.16": OnnxSupport(19, 9),
    "1.17": OnnxSupport(20, 9),
    "1.18": OnnxSupport(21, 10),
    "1.19": OnnxSupport(21, 10),
    "1.21": OnnxSupport(22, 10),
    "1.23": OnnxSupport(23, 11),
    "1.24": OnnxSupport(23, 11),
}
"""By ONNX Runtime version: the ONNX release it was built with."""


@dataclass(frozen=True)
class TritonRelease:
    """Contents of a `<release>-py3` image."""

    name: str
    triton: str
    python: str
    cuda: str
    tensorrt: str
    onnxruntime: str
    min_compute_capability: str

    @property
    def onnx(self) -> OnnxSupport:
        """The newest ONNX version that its ONNX Runtime reads."""
        return _ONNX_SUPPORT[self.onnxruntime.rpartition(".")[0]]

    @property
    def tensorrt_version(self) -> tuple[int, ...]:
        """TensorRT's version as numbers. An engine runs on the version that built it."""
        return tuple(int(number) for number in self.tensorrt.split(".")[:3])


RELEASES: dict[str, TritonRelease] = {
    release.name: release
    for release in (
        TritonRelease("23.12", "2.41.0", "3.10", "12.3.2", "8.6.1", "1.16.3", "6.0"),
        TritonRelease("24.01", "2.42.0", "3.10", "12.3.2", "8.6.1", "1.16.3", "6.0"),
        TritonRelease("24.03", "2.44.0", "3.10", "12.4.0", "8.6.3", "1.17.2", "6.0"),
        TritonRelease("24.05", "2.46.0", "3.10", "12.4.1", "10.0.1", "1.18.0", "6.0"),
        TritonRelease("24.09", "2.50.0", "3.10", "12.6.1", "10.4.0", "1.19.2", "6.0"),
        TritonRelease("25.04", "2.57.0", "3.12", "12.9.0", "10.9.0", "1.21.0", "7.5"),
        TritonRelease("25.09", "2.61.0", "3.12", "13.0.1", "10.13.3", "1.23.0", "7.5"),
        TritonRelease("26.03", "2.67.0", "3.12", "13.2.0", "10.16.0", "1.24.2", "7.5"),
        TritonRelease("26.04", "2.68.0", "3.12", "13.2.1", "10.16.1", "1.24.4", "7.5"),
        TritonRelease("26.05", "2.69.0", "3.12", "13.2.1", "10.16.1", "1.24.4", "7.5"),
    )
}
"""Unverified: the TensorRT versions of 26.03 to 26.05 come from public reports on the `tensorrt` image of the
same tag; the minimum compute capability of 26.05 is that of the release before."""

NUMPY_2_SINCE = "25.04"
"""The first release whose Python backend works with NumPy 2; 24.10 fails."""
