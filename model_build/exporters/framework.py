"""A PyTorch model of any task: the answers to compare with, and the graph to export."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from model_build.data import Array, ExportedGraph
from model_build.errors import ExportError
from model_build.exporters.heads import Head
from model_build.exporters.loading import quiet
from model_build.exporters.torchscript import load_torchscript, save_torchscript, trace_module
from model_build.graphs.onnx_files import OPSET, save_graph
from model_build.library_errors import brief
from tritonstack.files.records.manifests import TensorSpec

NO_FORMAT = "neither ONNX nor TorchScript holds this model: use a recipe of kind python"
_DATATYPES = {"int64": "INT64", "float32": "FP32"}


class Framework:
    """A head with its model, an example input, and the dimensions that vary."""

    def __init__(
        self,
        head: Head,
        *,
        example: Mapping[str, Array],
        axes: Mapping[int, str],
        unused_weights: tuple[str, ...] = (),
    ) -> None:
        """Set the model up; `axes` names the example's dimensions, equal for all of its arrays."""
        self.unused_weights = unused_weights
        """Tensors of the source that the model does not use, grouped."""
        self.head = head.eval()
        self._labels = head.labels
        self.example = example
        self._axes = axes

    @property
    def inputs(self) -> tuple[str, ...]:
        """The graph's input names."""
        return tuple(self.example)

    @property
    def description(self) -> str:
        """One-line description of the model."""
        raise NotImplementedError

    def answer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return PyTorch's answers to the graph's inputs."""
        tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
        with torch.inference_mode():
            result = self.head(**tensors)
        many = result if isinstance(result, tuple) else (result,)
        return {name: tensor.numpy() for name, tensor in zip(self.head.outputs, many, strict=True)}

    def export(self, folder: Path) -> ExportedGraph:
        """Export the ONNX graph, with the variable axes dynamic."""
        with quiet():
            model = self._to_onnx()
        graph = save_graph(model, folder)
        return dataclasses.replace(graph, outputs=self.labelled(graph.outputs))

    def trace(self, folder: Path) -> Path:
        """Save the model as TorchScript, with the graph's input names."""
        with quiet():
            return save_torchscript(trace_module(self.head, self.example, outputs=self.head.outputs), folder)

    def _other_formats(self) -> str:
        """Return what to use instead of ONNX: TorchScript only if a traced module gives the right answers."""
        other = self.other_example()
        try:
            with tempfile.TemporaryDirectory() as folder:
                script = load_torchscript(self.trace(Path(folder)), outputs=self.head.outputs)
                answers, right = script.answer(other), self.answer(other)
            fits = all(np.allclose(answers[name], right[name], atol=1e-3) for name in right)
        except Exception:  # of PyTorch's tracing, or of the module
            fits = False
        return "set `format: torchscript` in the recipe" if fits else NO_FORMAT

    def tensors(self) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
        """Return inputs and outputs for formats without metadata; sizes that differ between two examples
        vary."""
        other = self.other_example()
        pairs = [(self.example, other), (self.answer(self.example), self.answer(other))]
        inputs, outputs = (
            tuple(_tensor_of(name, array, second[name]) for name, array in first.items())
            for first, second in pairs
        )
        return inputs, self.labelled(outputs)

    def other_example(self) -> dict[str, Array]:
        """Return another example, with other sizes on the variable axes."""
        raise NotImplementedError

    def _to_onnx(self) -> Any:
        # One Dim per axis tells the exporter which input sizes are equal.
        sizes = {axis: torch.export.Dim(name, min=1) for axis, name in self._axes.items()}
        inputs = tuple(torch.from_numpy(array) for array in self.example.values())
        names = (self.inputs, self.head.outputs)
        try:
            return to_onnx(self.head, inputs, names=names, sizes=tuple(sizes for _ in inputs))
        except Exception as error:
            if self._use_eager_attention():
                return self._to_onnx()
            raise not_exported(error, self._other_formats()) from error

    def _use_eager_attention(self) -> bool:
        """Return whether the model could be switched to eager attention.

        Eager attention exports better, but not every architecture supports it.
        """
        encoder: Any = self.head.encoder
        config = getattr(encoder, "config", None)  # timm's models have none
        if getattr(config, "_attn_implementation", "eager") == "eager":
            return False
        encoder.set_attn_implementation("eager")
        return True

    def labelled(self, outputs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        """Return the tensors with labels for their positions."""
        return tuple(
            output.model_copy(update={"labels": self._labels.get(output.name, ())}) for output in outputs
        )


def to_onnx(
    module: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    *,
    names: tuple[Sequence[str], Sequence[str]],
    sizes: tuple[Any, ...],
) -> Any:
    """Export a module; `names` are those of its inputs and outputs, `sizes` the dimensions that vary."""
    program = torch.onnx.export(
        module,
        inputs,
        dynamo=True,
        opset_version=OPSET,
        input_names=list(names[0]),
        output_names=list(names[1]),
        dynamic_shapes=sizes,
        verbose=False,
    )
    if program is None:
        raise ExportError(
            "PyTorch's exporter returned no graph",
            remedy="export the model yourself and use a recipe of kind onnx, or use one of kind python",
        )
    return program.model


def not_exported(error: BaseException, remedy: str) -> ExportError:
    """Return the error for one of PyTorch's exporter."""
    while error.__cause__ is not None:  # the exporter's wrapper text is for its developers
        error = error.__cause__
    return ExportError(
        f"PyTorch cannot export this model to ONNX: {brief(error)}",
        remedy=remedy,
    )


def _tensor_of(name: str, array: Array, other: Array) -> TensorSpec:
    sizes = zip(array.shape[1:], other.shape[1:], strict=True)
    shape = tuple(size if size == second else -1 for size, second in sizes)
    return TensorSpec(name=name, datatype=_DATATYPES[array.dtype.name], shape=shape)


def require_numbers(answers: Mapping[str, Array]) -> None:
    """Raise ExportError if the framework itself returns NaN."""
    for name, array in answers.items():
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise ExportError(
                f"the model itself returns NaN for {name}",
                remedy="its weights are corrupt or its training diverged; use other weights",
            )
