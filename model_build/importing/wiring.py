"""Connect the steps of a Merlin export by column name, as an ensemble does: without converting anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from model_build.data import sizes_agree
from model_build.errors import ModelImportError
from model_build.linting.findings import ModelFolder
from model_build.repository.config import CONFIG_NAME, datatype_name
from model_build.repository.flattening import needed_steps
from model_build.repository.parts import SchedulingStep
from tritonstack.base.errors import FileViolation, InvalidFilesError, reject
from tritonstack.files.records.manifests import TensorSpec

CODE = ModelImportError.code
_RAGGED = ("__values", "__offsets", "__lengths", "__nnzs")
SPLIT = (
    "the executor converts and computes; an ensemble connects tensors only. Export the operators as steps, "
    "or move their logic into a Python model: `tritonstack new model NAME --recipe python`"
)


@dataclass(frozen=True)
class _Tensor:
    """A tensor of the ensemble: an input, or the output of a step."""

    maker: str
    """The step's folder; empty for an input of the ensemble."""
    name: str
    """The name of the column in Merlin."""
    datatype: str
    shape: tuple[int, ...]

    @property
    def title(self) -> str:
        return f"{self.maker} gives" if self.maker else "the executor takes"


violation_at = partial(ModelFolder.error, code=CODE)
"""A violation at a field of a model's config.pbtxt."""


@dataclass
class ColumnWiring:
    """Connects the tensors of the steps by column name, the latest maker first."""

    steps: Sequence[ModelFolder]
    executor: ModelFolder | None
    shown: Path
    inputs: dict[str, _Tensor] = field(default_factory=dict)
    latest: dict[str, _Tensor] = field(default_factory=dict)
    used: list[tuple[ModelFolder, dict[str, _Tensor], dict[str, _Tensor]]] = field(default_factory=list)
    names: dict[_Tensor, str] = field(default_factory=dict)
    violations: list[FileViolation] = field(default_factory=list)

    def run(self) -> tuple[list[TensorSpec], list[TensorSpec], list[SchedulingStep]]:
        """Return inputs, outputs, and steps; raise InvalidFilesError with everything that cannot "
        "be connected."""
        for step in self.steps:
            taken = {
                tensor.name: self._source(step, index, tensor)
                for index, tensor in enumerate(tensors(step.config, "input"))
            }
            outputs_of_step = {
                tensor.name: _Tensor(step.name, tensor.name, tensor.datatype, tensor.shape)
                for tensor in tensors(step.config, "output")
            }
            self.used.append(
                (step, {name: tensor for name, tensor in taken.items() if tensor}, outputs_of_step)
            )
            self._replace(outputs_of_step)
        outputs = self._outputs()
        reject(dict.fromkeys(self.violations))
        self._name(outputs)
        scheduled = needed_steps(
            [
                SchedulingStep(
                    step.name,
                    {name: self.names[tensor] for name, tensor in taken.items()},
                    {name: self.names[tensor] for name, tensor in outputs_of_step.items()},
                )
                for step, taken, outputs_of_step in self.used
            ],
            [tensor.name for tensor in outputs],
        )
        self._check_inputs({name for step in scheduled for name in step.inputs.values()})
        return (
            [_spec(tensor) for tensor in self.inputs.values()],
            [_spec(tensor) for tensor in outputs],
            scheduled,
        )

    def _replace(self, outputs: Mapping[str, _Tensor]) -> None:
        """Let a step's outputs replace earlier tensors of the same columns, in whatever form these were."""
        columns = set(map(_column, outputs))
        self.latest = {name: tensor for name, tensor in self.latest.items() if _column(name) not in columns}
        self.latest.update(outputs)

    def renamed(self) -> Iterator[str]:
        """Yield the tensors between steps that have another name in the ensemble."""
        for tensor, name in self.names.items():
            if name != tensor.name and any(tensor in taken.values() for _, taken, _ in self.used):
                yield f"the output {tensor.name} of {tensor.maker} is named {name} between the steps"

    def _source(self, step: ModelFolder, index: int, spec: TensorSpec) -> _Tensor | None:
        """Return what feeds an input: an earlier step, or the caller."""
        source = self.latest.get(spec.name)
        place = ("input", index)
        if source is None:
            source = self._from_caller(step, place, spec)
        if source is None:
            return None
        if source.datatype != spec.datatype:
            self._violation(
                step,
                place,
                f"{spec.name} is {spec.datatype} here, and {source.title} {source.datatype}",
                "the executor casts it, and an ensemble does not: write the same data_type into both "
                "config.pbtxt files if the models accept it, or change the schema and export again",
            )
        elif not sizes_agree(spec.shape, source.shape):
            self._violation(
                step,
                place,
                f"{spec.name} has dims {list(spec.shape)} here, and {source.title} {list(source.shape)}",
                "use the same dims, or -1",
            )
        return source

    def _from_caller(self, step: ModelFolder, place: tuple[str, int], spec: TensorSpec) -> _Tensor | None:
        of_executor = (
            {tensor_spec.name: tensor_spec for tensor_spec in tensors(self.executor.config, "input")}
            if self.executor
            else None
        )
        if hint := _other_form(spec.name, self.latest) or _other_form(spec.name, of_executor or {}):
            self._violation(step, place, f"{spec.name}: {hint}", _FORMS)
            return None
        if of_executor is not None and spec.name not in of_executor:
            self._violation(
                step,
                place,
                f"no earlier step gives {spec.name}, and the executor does not take it: an operator "
                "without a step of its own makes it",
                SPLIT,
            )
            return None
        declared = of_executor[spec.name] if of_executor else spec
        # The step's dims hold for callers too; the executor's may be wider.
        shape = spec.shape if len(declared.shape) == len(spec.shape) else declared.shape
        tensor = _Tensor("", spec.name, declared.datatype, shape)
        self.inputs[spec.name] = self.latest[spec.name] = tensor
        return tensor

    def _outputs(self) -> list[_Tensor]:
        """Return the tensors that the executor returns; without it, those of the last step."""
        if self.executor is None:
            return list(self.used[-1][2].values())
        outputs = []
        for index, spec in enumerate(tensors(self.executor.config, "output")):
            tensor, place = self.latest.get(spec.name), ("output", index)
            if tensor is None:
                hint = _other_form(spec.name, self.latest)
                self._violation(
                    self.executor,
                    place,
                    f"{spec.name}: {hint}"
                    if hint
                    else f"no step gives {spec.name}: the executor computes it",
                    _FORMS if hint else SPLIT,
                )
            elif not tensor.maker:
                self._violation(
                    self.executor,
                    place,
                    f"{spec.name} is an input that the executor returns unchanged",
                    SPLIT,
                )
            elif (tensor.datatype, sizes_agree(spec.shape, tensor.shape)) != (spec.datatype, True):
                self._violation(
                    self.executor,
                    place,
                    f"{spec.name} is {spec.datatype} {list(spec.shape)} here, and {tensor.title} "
                    f"{tensor.datatype} {list(tensor.shape)}",
                    "an ensemble converts nothing: correct the schema, and export again",
                )
            else:
                outputs.append(tensor)
        return outputs

    def _name(self, outputs: Sequence[_Tensor]) -> None:
        """Name every tensor: callers' tensors keep their names, others get a number if theirs recurs."""
        for output in outputs:
            if output.name in self.inputs:
                raise InvalidFilesError(
                    [
                        FileViolation(
                            self.shown / output.maker / CONFIG_NAME,
                            None,
                            "output",
                            f"{output.name} is the name of an input and of an output of the whole export; a "
                            "tensor of an ensemble has one source",
                            "rename the output in the model, and export again",
                            code=CODE,
                        )
                    ]
                )
        self.names = {tensor: tensor.name for tensor in (*self.inputs.values(), *outputs)}
        taken = set(self.names.values())
        for index, (_, _, step_outputs) in enumerate(self.used):
            for tensor in step_outputs.values():
                if tensor in self.names:
                    continue
                name, number = tensor.name, index
                while name in taken:
                    name, number = f"{tensor.name}_{number}", number + 1
                taken.add(name)
                self.names[tensor] = name

    def _check_inputs(self, used: set[str]) -> None:
        """Require that the remaining steps use all that callers send to the executor."""
        for name in sorted(self.inputs.keys() - used):
            del self.inputs[name]
        if self.executor is None:
            return
        unused = [
            (index, spec.name)
            for index, spec in enumerate(tensors(self.executor.config, "input"))
            if spec.name not in self.inputs
        ]
        for index, name in unused:
            self._violation(
                self.executor, ("input", index), f"no step uses {name}: only the executor does", SPLIT
            )
        reject(dict.fromkeys(self.violations))

    def _violation(self, model: ModelFolder, place: Sequence[str | int], message: str, remedy: str) -> None:
        self.violations.append(violation_at(model, message, remedy, *place))


_FORMS = (
    "the executor converts between the forms, and an ensemble does not: set the same form in both schemas "
    "(ragged, or a fixed length), and export all steps with one version of Merlin"
)


def _column(name: str) -> str:
    return next((name.removesuffix(end) for end in _RAGGED if name.endswith(end)), name)


def _other_form(name: str, columns: Mapping[str, Any]) -> str:
    """Describe the form in which a column is known, if it is another one."""
    column = _column(name)
    if column == name:
        forms = [other_name for other_name in columns if other_name != name and _column(other_name) == column]
        return (
            f"a fixed-length column here; elsewhere it is ragged: {', '.join(sorted(forms))}" if forms else ""
        )
    if column in columns:
        return f"a ragged column here; elsewhere it has a fixed length: {column}"
    rows = {column + end for end in _RAGGED[1:]}
    other = sorted(columns.keys() & (rows - {name})) if name in rows else []
    return f"the rows of {column} are described here, and by {other[0]} elsewhere" if other else ""


def tensors(config: Any, kind: str) -> list[TensorSpec]:
    """Return the inputs or outputs of a step with all dimensions, the batch included."""
    batch = (-1,) if config.max_batch_size > 0 else ()
    return [
        TensorSpec(name=tensor.name, datatype=datatype_name(tensor.data_type), shape=(*batch, *tensor.dims))
        for tensor in getattr(config, kind)
    ]


def _spec(tensor: _Tensor) -> TensorSpec:
    return TensorSpec(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
