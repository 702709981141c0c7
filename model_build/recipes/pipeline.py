"""Connect the tensors of an ensemble's models and report mismatches.

Nothing is built or run here; models are described by their manifests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from model_build.data import sizes_agree
from tritonstack.base.error_kinds import CompositionError
from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml import Document, FieldPath, closest, suggest
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import EnsembleRecipe
from tritonstack.files.records.manifests import Manifest, TensorSpec

Side = Literal["inputs", "outputs"]


@dataclass(frozen=True)
class WiredStep:
    """A step; mappings go from the model's tensor names to the pipeline's."""

    model: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    """The outputs that another step or the caller uses."""


@dataclass(frozen=True)
class Pipeline:
    """A pipeline with all tensors connected."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    steps: tuple[WiredStep, ...]
    max_batch: int


@dataclass
class _Tensor:
    """A tensor of the pipeline, and the step that defined it first."""

    spec: TensorSpec
    step: int
    made: bool
    takers: list[int] = field(default_factory=list)

    @property
    def origin(self) -> str:
        """Origin of the tensor, for messages."""
        return f"output of step {self.step + 1}" if self.made else f"input of step {self.step + 1}"


class Wiring:
    """Follow the tensors through the steps and collect violations."""

    def __init__(
        self, document: Document[ModelSpec], recipe: EnsembleRecipe, members: Mapping[str, Manifest]
    ) -> None:
        self._document = document
        self._steps = recipe.steps
        self._wanted = recipe.outputs
        self._members = members
        self._tensors: dict[str, _Tensor] = {}
        self.violations: list[FileViolation] = []

    def run(self) -> Pipeline | None:
        """Return the pipeline; None if there are violations."""
        for index in range(len(self._steps)):
            self._check_names(index)
            self._take(index)
            self._make(index)
        self._near_misses()
        outputs = self._outputs()
        max_batch = self._max_batch()
        steps = tuple(self._wired(index, outputs) for index in range(len(self._steps)))
        if self.violations:
            return None
        return Pipeline(
            inputs=tuple(tensor.spec for tensor in self._tensors.values() if not tensor.made),
            outputs=tuple(self._tensors[name].spec for name in outputs),
            steps=steps,
            max_batch=max_batch,
        )

    def _manifest(self, index: int) -> Manifest:
        return self._members[self._steps[index].model]

    def _renamed(self, index: int, side: Side) -> Iterator[tuple[FieldPath, TensorSpec]]:
        """Return a step's tensors under their pipeline names, with their positions in the file."""
        names: Mapping[str, str] = getattr(self._steps[index], side)
        for tensor in getattr(self._manifest(index), side):
            place = ("recipe", "steps", index, *((side, tensor.name) if tensor.name in names else ()))
            yield place, tensor.model_copy(update={"name": names.get(tensor.name, tensor.name)})

    def _check_names(self, index: int) -> None:
        step = self._steps[index]
        sides: tuple[Side, ...] = ("inputs", "outputs")
        for side in sides:
            names = [tensor.name for tensor in getattr(self._manifest(index), side)]
            for name in getattr(step, side):
                if name not in names:
                    self._add_violation(
                        ("recipe", "steps", index, side, name),
                        f"{step.model!r} has no {side[:-1]} {name!r}",
                        _nearest(name, names),
                    )

    def _take(self, index: int) -> None:
        for place, tensor in self._renamed(index, "inputs"):
            source = self._tensors.get(tensor.name)
            if source is None:
                self._tensors[tensor.name] = _Tensor(tensor, index, made=False, takers=[index])
                continue
            source.takers.append(index)
            if mismatch := _mismatch(source.spec, tensor):
                self._add_violation(
                    place,
                    f"{self._steps[index].model!r} takes {tensor.name!r} as {_shown(tensor)}; it is "
                    f"{_shown(source.spec)} ({source.origin}): {mismatch}",
                    "map another tensor to this input, or add a step between the two",
                )
            elif not source.made:
                source.spec = _narrowed(source.spec, tensor)

    def _make(self, index: int) -> None:
        for place, tensor in self._renamed(index, "outputs"):
            existing = self._tensors.get(tensor.name)
            if existing is None:
                self._tensors[tensor.name] = _Tensor(tensor, index, made=True)
            elif existing.made or existing.step == index:
                self._add_violation(
                    place,
                    f"{self._steps[index].model!r} outputs {tensor.name!r}, which already exists "
                    f"({existing.origin})",
                    f"rename this one: `outputs: {{...: other-{tensor.name}}}`",
                )
            elif cycle := self._cycle(index, existing.step):
                steps = " -> ".join(f"step {step + 1} ({self._steps[step].model})" for step in cycle)
                self._add_violation(
                    place,
                    f"the steps wait for each other: {steps}",
                    f"give step {existing.step + 1} another tensor than {tensor.name!r}",
                )
            else:
                self._add_violation(
                    place,
                    f"{self._steps[index].model!r} outputs {tensor.name!r}; already {existing.origin}",
                    "move this step first, or rename one of them",
                )

    def _cycle(self, maker: int, taker: int) -> list[int]:
        """Return the steps from `taker` to `maker` and back, if `maker` needs what `taker` makes."""
        makers = {
            tensor.name: index
            for index in range(len(self._steps))
            for _, tensor in self._renamed(index, "outputs")
        }
        paths, waiting = {maker: [maker]}, [maker]
        while waiting:
            current = waiting.pop(0)
            for _, tensor in self._renamed(current, "inputs"):
                before = makers.get(tensor.name)
                if before is not None and before not in paths:
                    paths[before] = [before, *paths[current]]
                    waiting.append(before)
        return [*paths[taker], taker] if taker in paths and taker != maker else []

    def _near_misses(self) -> None:
        """Find an unconnected input and an unused output with similar names."""
        unused = {
            name: tensor
            for name, tensor in self._tensors.items()
            if tensor.made and not tensor.takers and name not in self._wanted
        }
        for name, tensor in self._tensors.items():
            if tensor.made or tensor.step == 0:
                continue
            earlier = [other for other in unused if unused[other].step < tensor.step]
            near = closest(name, earlier)
            if near is not None and not _mismatch(unused[near].spec, tensor.spec):
                self._add_violation(
                    ("recipe", "steps", tensor.step),
                    f"no step outputs {name!r}, which {self._steps[tensor.step].model!r} takes",
                    f"did you mean '{near}'? Map it: `inputs: {{...: {near}}}`; if callers send {name!r}, "
                    f"name '{near}' in `recipe.outputs`",
                )

    def _outputs(self) -> tuple[str, ...]:
        produced = {name: tensor for name, tensor in self._tensors.items() if tensor.made}
        for index, name in enumerate(self._wanted):
            if name not in produced:
                self._add_violation(
                    ("recipe", "outputs", index), f"no step outputs {name!r}", _nearest(name, list(produced))
                )
        return self._wanted or tuple(name for name, tensor in produced.items() if not tensor.takers)

    def _max_batch(self) -> int:
        sizes = [self._manifest(index).max_batch for index in range(len(self._steps))]
        smallest = min((size for size in sizes if size > 0), default=0)
        for index, size in enumerate(sizes):
            if smallest and not size:
                self._add_violation(
                    ("recipe", "steps", index, "model"),
                    f"{self._steps[index].model!r} has no batch dimension; other steps have one",
                    "build it with a batch dimension, or all others without",
                )
        return self._asked_batch(smallest, sizes)

    def _asked_batch(self, smallest: int, sizes: Sequence[int]) -> int:
        place, batching = ("batching", "max_batch"), self._document.record.batching
        if place not in self._document.lines or batching.max_batch == smallest:
            return smallest
        if batching.max_batch > smallest or batching.max_batch == 0:
            model = self._steps[sizes.index(smallest)].model if smallest in sizes else ""
            self._add_violation(
                place,
                f"{model!r} takes at most {smallest}" if smallest else f"{model!r} has no batch dimension",
                f"set {smallest} or remove it",
            )
        return batching.max_batch

    def _wired(self, index: int, outputs: Sequence[str]) -> WiredStep:
        step = self._steps[index]
        manifest, names = self._manifest(index), [tensor.name for _, tensor in self._renamed(index, "inputs")]
        sources = {tensor.name: name for tensor, name in zip(manifest.inputs, names, strict=True)}
        results = {
            own.name: tensor.name
            for own, (_, tensor) in zip(manifest.outputs, self._renamed(index, "outputs"), strict=True)
            if tensor.name in outputs or self._tensors[tensor.name].takers
        }
        if not results and not self.violations:
            self._add_violation(
                ("recipe", "steps", index),
                f"the outputs of {step.model!r} are unused",
                "remove this step, or list one of its outputs in `recipe.outputs`",
            )
        return WiredStep(step.model, sources, results)

    def _add_violation(self, place: FieldPath, message: str, remedy: str) -> None:
        self.violations.append(self._document.violation(CompositionError, place, message, remedy))


def _mismatch(source: TensorSpec, target: TensorSpec) -> str | None:
    """Return why two tensors do not match; a size of -1 matches any."""
    if source.datatype != target.datatype:
        return "another type"
    if len(source.shape) != len(target.shape):
        return "different ranks"
    return None if sizes_agree(source.shape, target.shape) else "other sizes"


def _narrowed(first: TensorSpec, second: TensorSpec) -> TensorSpec:
    """Merge the requirements of two steps that share an input."""
    shape = tuple(
        other if size == -1 else size for size, other in zip(first.shape, second.shape, strict=True)
    )
    return first.model_copy(update={"shape": shape})


def _shown(tensor: TensorSpec) -> str:
    return f"{tensor.datatype} {list(tensor.shape)}"


def _nearest(name: str, names: Sequence[str]) -> str:
    return suggest(name, names, f"allowed: {', '.join(names)}")
