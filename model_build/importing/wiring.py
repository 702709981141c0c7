"""Connect the steps of a Merlin export by column name, as an ensemble does: without converting anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model_build.errors import ModelImportError
from model_build.linting.findings import ModelFolder
from model_build.repository.config import CONFIG_NAME, datatype_name
from model_build.repository.flattening import needed_steps
from model_build.repository.parts import SchedulingStep
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.records.manifests import TensorSpec

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

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return whether the sizes agree; -1 is any size."""
        return len(shape) == len(self.shape) and all(
            one == other or -1 in (one, other) for one, other in zip(shape, self.shape, strict=True)
        )


def violation_at(model: ModelFolder, message: str, remedy: str, *place: str | int) -> FileViolation:
    """Return a violation at a field of a model's config.pbtxt."""
    return model.error(CODE, message, remedy, *place)


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
                one.name: self._source(step, index, one)
                for index, one in enumerate(tensors(step.config, "input"))
            }
            made = {
                one.name: _Tensor(step.name, one.name, one.datatype, one.shape)
                for one in tensors(step.config, "output")
            }
            self.used.append((step, {name: one for name, one in taken.items() if one}, made))
            self._replace(made)
        outputs = self._outputs()
        if self.violations:
            raise InvalidFilesError(dict.fromkeys(self.violations))
        self._name(outputs)
        scheduled = needed_steps(
            [
                SchedulingStep(
                    step.name,
                    {name: self.names[one] for name, one in taken.items()},
                    {name: self.names[one] for name, one in made.items()},
                )
                for step, taken, made in self.used
            ],
            [one.name for one in outputs],
        )
        self._check_inputs({name for step in scheduled for name in step.inputs.values()})
        return [_spec(one) for one in self.inputs.values()], [_spec(one) for one in outputs], scheduled

    def _replace(self, made: Mapping[str, _Tensor]) -> None:
        """Let a step's outputs replace earlier tensors of the same columns, in whatever form these were."""
        columns = set(map(_column, made))
        self.latest = {name: one for name, one in self.latest.items() if _column(name) not in columns}
        self.latest.update(made)

    def renamed(self) -> Iterator[str]:
        """Yield the tensors between steps that have another name in the ensemble."""
        for tensor, name in self.names.items():
            if name != tensor.name and any(tensor in taken.values() for _, taken, _ in self.used):
                yield f"the output {tensor.name} of {tensor.maker} is named {name} between the steps"

    def _source(self, step: ModelFolder, index: int, wanted: TensorSpec) -> _Tensor | None:
        """Return what feeds an input: an earlier step, or the caller."""
        found = self.latest.get(wanted.name)
        place = ("input", index)
        if found is None:
            found = self._from_caller(step, place, wanted)
        if found is None:
            return None
        if found.datatype != wanted.datatype:
            self._violation(
                step,
                place,
                f"{wanted.name} is {wanted.datatype} here, and {found.title} {found.datatype}",
                "the executor casts it, and an ensemble does not: write the same data_type into both "
                "config.pbtxt files if the models accept it, or change the schema and export again",
            )
        elif not found.fits(wanted.shape):
            self._violation(
                step,
                place,
                f"{wanted.name} has dims {list(wanted.shape)} here, and {found.title} {list(found.shape)}",
                "use the same dims, or -1",
            )
        return found

    def _from_caller(self, step: ModelFolder, place: tuple[str, int], wanted: TensorSpec) -> _Tensor | None:
        known = {one.name: one for one in tensors(self.executor.config, "input")} if self.executor else None
        if hint := _other_form(wanted.name, self.latest) or _other_form(wanted.name, known or {}):
            self._violation(step, place, f"{wanted.name}: {hint}", _FORMS)
            return None
        if known is not None and wanted.name not in known:
            self._violation(
                step,
                place,
                f"no earlier step gives {wanted.name}, and the executor does not take it: an operator "
                "without a step of its own makes it",
                SPLIT,
            )
            return None
        asked = known[wanted.name] if known else wanted
        # The step's dims hold for callers too; the executor's may be wider.
        shape = wanted.shape if len(asked.shape) == len(wanted.shape) else asked.shape
        tensor = _Tensor("", wanted.name, asked.datatype, shape)
        self.inputs[wanted.name] = self.latest[wanted.name] = tensor
        return tensor

    def _outputs(self) -> list[_Tensor]:
        """Return the tensors that the executor returns; without it, those of the last step."""
        if self.executor is None:
            return list(self.used[-1][2].values())
        found = []
        for index, wanted in enumerate(tensors(self.executor.config, "output")):
            tensor, place = self.latest.get(wanted.name), ("output", index)
            if tensor is None:
                hint = _other_form(wanted.name, self.latest)
                self._violation(
                    self.executor,
                    place,
                    f"{wanted.name}: {hint}"
                    if hint
                    else f"no step gives {wanted.name}: the executor computes it",
                    _FORMS if hint else SPLIT,
                )
            elif not tensor.maker:
                self._violation(
                    self.executor,
                    place,
                    f"{wanted.name} is an input that the executor returns unchanged",
                    SPLIT,
                )
            elif (tensor.datatype, tensor.fits(wanted.shape)) != (wanted.datatype, True):
                self._violation(
                    self.executor,
                    place,
                    f"{wanted.name} is {wanted.datatype} {list(wanted.shape)} here, and {tensor.title} "
                    f"{tensor.datatype} {list(tensor.shape)}",
                    "an ensemble converts nothing: correct the schema, and export again",
                )
            else:
                found.append(tensor)
        return found

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
        self.names = {one: one.name for one in (*self.inputs.values(), *outputs)}
        taken = set(self.names.values())
        for index, (_, _, made) in enumerate(self.used):
            for one in made.values():
                if one in self.names:
                    continue
                name, number = one.name, index
                while name in taken:
                    name, number = f"{one.name}_{number}", number + 1
                taken.add(name)
                self.names[one] = name

    def _check_inputs(self, used: set[str]) -> None:
        """Require that the remaining steps use all that callers send to the executor."""
        for name in sorted(self.inputs.keys() - used):
            del self.inputs[name]
        if self.executor is None:
            return
        unused = [
            (index, one.name)
            for index, one in enumerate(tensors(self.executor.config, "input"))
            if one.name not in self.inputs
        ]
        for index, name in unused:
            self._violation(
                self.executor, ("input", index), f"no step uses {name}: only the executor does", SPLIT
            )
        if self.violations:
            raise InvalidFilesError(dict.fromkeys(self.violations))

    def _violation(self, model: ModelFolder, place: Sequence[str | int], message: str, remedy: str) -> None:
        self.violations.append(violation_at(model, message, remedy, *place))


_FORMS = (
    "the executor converts between the forms, and an ensemble does not: set the same form in both schemas "
    "(ragged, or a fixed length), and export all steps with one version of Merlin"
)


def _column(name: str) -> str:
    return next((name.removesuffix(end) for end in _RAGGED if name.endswith(end)), name)


def _other_form(name: str, known: Mapping[str, Any]) -> str:
    """Describe the form in which a column is known, if it is another one."""
    column = _column(name)
    if column == name:
        forms = [one for one in known if one != name and _column(one) == column]
        return (
            f"a fixed-length column here; elsewhere it is ragged: {', '.join(sorted(forms))}" if forms else ""
        )
    if column in known:
        return f"a ragged column here; elsewhere it has a fixed length: {column}"
    rows = {column + end for end in _RAGGED[1:]}
    other = sorted(known.keys() & (rows - {name})) if name in rows else []
    return f"the rows of {column} are described here, and by {other[0]} elsewhere" if other else ""


def tensors(config: Any, kind: str) -> list[TensorSpec]:
    """Return the inputs or outputs of a step with all dimensions, the batch included."""
    batch = (-1,) if config.max_batch_size > 0 else ()
    return [
        TensorSpec(name=one.name, datatype=datatype_name(one.data_type), shape=(*batch, *one.dims))
        for one in getattr(config, kind)
    ]


def _spec(tensor: _Tensor) -> TensorSpec:
    return TensorSpec(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
