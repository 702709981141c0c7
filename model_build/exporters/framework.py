"""A model as PyTorch runs it, whatever its task: the answers to compare with, and what is exported of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from model_build.errors import ExportError
from model_build.exporters.heads import Head
from model_build.exporters.loading import quiet
from model_build.exporters.torchscript import save_torchscript, trace_module
from model_build.graphs.onnx_file import OPSET, save_graph
from model_build.graphs.records import ExportedGraph
from model_build.library_errors import brief
from tritonstack.records.manifests import TensorSpec

Array = NDArray[Any]
_DATATYPES = {"int64": "INT64", "float32": "FP32"}


class Framework:
    """A head with its model. What it takes is known by an example and by the axes that vary."""

    def __init__(
        self,
        head: Head,
        *,
        example: Mapping[str, Array],
        axes: Mapping[int, str],
        unused_weights: tuple[str, ...] = (),
    ) -> None:
        """`axes` are names of the example's dimensions, the same for each of its arrays."""
        self.unused_weights = unused_weights
        """Tensors of the source that the model does not use, in groups."""
        self.head = head.eval()
        self._labels = head.labels
        self.example = example
        self._axes = axes

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of what the graph takes."""
        return tuple(self.example)

    @property
    def description(self) -> str:
        """The model in a few words."""
        raise NotImplementedError

    def answer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """PyTorch's answers to the graph's inputs."""
        tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
        with torch.inference_mode():
            result = self.head(**tensors)
        many = result if isinstance(result, tuple) else (result,)
        return {name: tensor.numpy() for name, tensor in zip(self.head.outputs, many, strict=True)}

    def export(self, folder: Path) -> ExportedGraph:
        """Write the ONNX graph, for any sizes of the axes that vary."""
        with quiet():
            try:
                model = self._to_onnx()
            except Exception as error:
                if not self._attend_plainly():
                    raise _not_exported(error) from error
                try:
                    model = self._to_onnx()
                except Exception as plain_error:
                    raise _not_exported(plain_error) from plain_error
        graph = save_graph(model, folder)
        return dataclasses.replace(graph, outputs=self.labelled(graph.outputs))

    def trace(self, folder: Path) -> Path:
        """Write the model as TorchScript, whose inputs have the graph's names."""
        with quiet():
            return save_torchscript(trace_module(self.head, self.example, outputs=self.head.outputs), folder)

    def tensors(self) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
        """What goes in and comes out, where no graph tells it; sizes that two examples differ in vary."""
        other = self.other_example()
        pairs = [(self.example, other), (self.answer(self.example), self.answer(other))]
        inputs, outputs = (
            tuple(_tensor_of(name, array, second[name]) for name, array in first.items())
            for first, second in pairs
        )
        return inputs, self.labelled(outputs)

    def other_example(self) -> dict[str, Array]:
        """As `example`, with other sizes on the axes that vary."""
        raise NotImplementedError

    def _to_onnx(self) -> Any:
        # One Dim for each axis: the exporter learns from it that sizes of several inputs are the same.
        sizes = {axis: torch.export.Dim(name, min=1) for axis, name in self._axes.items()}
        program = torch.onnx.export(
            self.head,
            tuple(torch.from_numpy(array) for array in self.example.values()),
            dynamo=True,
            opset_version=OPSET,
            input_names=list(self.inputs),
            output_names=list(self.head.outputs),
            dynamic_shapes=tuple(sizes for _ in self.inputs),
            verbose=False,
        )
        if program is None:
            raise ExportError("PyTorch's exporter returned no graph")
        return program.model

    def _attend_plainly(self) -> bool:
        """Whether the model could be made to attend without PyTorch's fused operator.

        It is the better one to export, but not every architecture's use of it can be taken apart.
        """
        encoder: Any = self.head.encoder
        if getattr(encoder.config, "_attn_implementation", "eager") == "eager":
            return False
        encoder.set_attn_implementation("eager")
        return True

    def labelled(self, outputs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        """The same tensors, with what the model says their places mean."""
        return tuple(
            output.model_copy(update={"labels": self._labels.get(output.name, ())}) for output in outputs
        )


def _not_exported(error: BaseException) -> ExportError:
    while error.__cause__ is not None:  # what the exporter wraps around it is advice to its developers
        error = error.__cause__
    return ExportError(
        f"PyTorch cannot export this model to ONNX: {brief(error)}",
        remedy="try `format: torchscript` in the recipe",
    )


def _tensor_of(name: str, array: Array, other: Array) -> TensorSpec:
    sizes = zip(array.shape[1:], other.shape[1:], strict=True)
    shape = tuple(size if size == second else -1 for size, second in sizes)
    return TensorSpec(name=name, datatype=_DATATYPES[array.dtype.name], shape=shape)


def require_numbers(answers: Mapping[str, Array]) -> None:
    """Raise ExportError where the framework itself answers what is no number."""
    for name, array in answers.items():
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise ExportError(
                f"the model itself answers {name} with what is no number (NaN)",
                remedy="its weights are damaged, or the training that made them failed; take others",
            )


def arrays_of(tokens: Mapping[str, Any]) -> dict[str, Array]:
    """Whatever a tokenizer gives, as Triton's INT64."""
    return {name: np.asarray(values).astype(np.int64) for name, values in tokens.items()}
