"""Convert an image processor's settings to those of the served step.

The served step resizes, crops, rescales, and normalizes. A processor with any other behavior is rejected,
naming the method; two architectures differ only in sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers.image_processing_backends import PilBackend

from model_build.errors import ExportError

METHODS = ("_preprocess", "resize", "center_crop", "rescale", "normalize", "process_image")
REMEDY = "set `input: pixels`, and prepare the images in the client"
Geometry = list[dict[str, Any]]


def preparation_of(processor: Any) -> Mapping[str, Any]:
    """Return the content of preparation.json for the served step."""
    kind = type(processor).__name__.removesuffix("Pil").removesuffix("Fast")
    known = {"ConvNextImageProcessor": _convnext_sizes, "LevitImageProcessor": _levit_sizes}
    if kind not in known:
        _check_methods(processor, kind)
    if processor.do_pad:
        raise _export_error(kind, "pads images")
    geometry = known.get(kind, _sizes)(processor, kind) if processor.do_resize else []
    if processor.do_center_crop:
        geometry.append({"crop": [processor.crop_size.height, processor.crop_size.width]})
    return {
        "geometry": geometry,
        "resample": int(processor.resample if processor.resample is not None else 2),
        "scale": processor.rescale_factor if processor.do_rescale else None,
        "mean": _each_channel(processor.image_mean) if processor.do_normalize else None,
        "deviation": _each_channel(processor.image_std) if processor.do_normalize else None,
    }


def _check_methods(processor: Any, kind: str) -> None:
    for method in METHODS:
        if getattr(type(processor), method, None) is not getattr(PilBackend, method):
            raise _export_error(kind, f"has a custom {method.removeprefix('_').replace('_', ' ')}")


def _sizes(processor: Any, kind: str) -> Geometry:
    size = processor.size
    if size.shortest_edge and not size.longest_edge:
        return [{"shorter": size.shortest_edge}]
    if size.height and size.width:
        return [{"resize": [size.height, size.width]}]
    raise _export_error(kind, f"resizes images to {dict(size)}")


def _convnext_sizes(processor: Any, kind: str) -> Geometry:
    """Small images are resized slightly above the crop size, large ones to the crop size."""
    edge = processor.size.shortest_edge
    if not edge:
        raise _export_error(kind, f"resizes images to {dict(processor.size)}")
    if edge >= 384:
        return [{"resize": [edge, edge]}]
    return [{"shorter": int(edge / processor.crop_pct)}, {"crop": [edge, edge]}]


def _levit_sizes(processor: Any, kind: str) -> Geometry:
    """Resize slightly above the crop size."""
    edge = processor.size.shortest_edge
    return [{"shorter": int((256 / 224) * edge)}] if edge else _sizes(processor, kind)


def _each_channel(value: Any) -> list[float]:
    return [float(item) for item in value] if isinstance(value, list | tuple) else [float(value)] * 3


def _export_error(kind: str, reason: str) -> ExportError:
    return ExportError(f"the model's {kind} {reason}, which the served step does not support", remedy=REMEDY)
