"""Rules for ensembles: steps, mappings, types, shapes, and cycles.

Follows ValidateEnsembleSchedulingConfig and ValidateEnsembleConfig in Triton's core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from model_build.data.shapes import sizes_agree
from model_build.linting.findings import Finding, ModelFolder
from model_build.repository.config import datatype_name
from model_build.repository.layout import is_ensemble
from tritonstack.base.error_kinds import CompositionError
from tritonstack.base.yaml import suggest

_error = partial(ModelFolder.error, code=CompositionError.code)
_STEP = ("ensemble_scheduling", 0, "step")


@dataclass(frozen=True)
class _Tensor:
    """A tensor of the ensemble, as one model declares it."""

    datatype: int
    dims: tuple[int, ...]
    batches: bool
    model: str

    def fits(self, other: _Tensor) -> bool:
        """Return whether the sizes agree, with or without the batch dimension."""
        return sizes_agree(self.dims, other.dims) or sizes_agree(self.full, other.full)

    @property
    def full(self) -> tuple[int, ...]:
        return (-1, *self.dims) if self.batches else self.dims


def ensemble_rules(models: Mapping[str, ModelFolder]) -> Iterator[Finding]:
    """Yield findings about every ensemble of a repository."""
    for model in models.values():
        if is_ensemble(model.config):
            yield from _settings(model)
            yield from _steps(model, models)
            yield from _flow(model)
    yield from _cycles(models)


def _settings(model: ModelFolder) -> Iterator[Finding]:
    config = model.config
    if config.platform not in ("ensemble", "") or (config.backend not in ("ensemble", "")):
        yield _error(
            model,
            "ensemble_scheduling with another platform or backend",
            'set `platform: "ensemble"` and remove `backend`',
            "ensemble_scheduling",
        )
    elif not config.platform and config.backend != "ensemble":
        yield _error(model, 'no platform: Triton needs platform: "ensemble"', 'set `platform: "ensemble"`')
    for field in ("instance_group", "optimization", "model_warmup"):
        if any(descriptor.name == field for descriptor, _ in config.ListFields()):
            yield _error(model, f"an ensemble cannot have {field}", "move it to the parts", field)
    if not config.ensemble_scheduling.step:
        yield _error(model, "the ensemble has no step", "add steps", "ensemble_scheduling")


def _steps(model: ModelFolder, models: Mapping[str, ModelFolder]) -> Iterator[Finding]:
    config = model.config
    tensors = {tensor.name: _tensor(tensor, config, model.name) for tensor in (*config.input, *config.output)}
    for index, step in enumerate(config.ensemble_scheduling.step):
        place = (*_STEP, index)
        for field in ("model_name", "input_map", "output_map"):
            if not getattr(step, field):
                yield _error(model, f"step {index + 1} has no {field}", "add it", *place)
        part = models.get(step.model_name)
        if part is None:
            continue
        most = part.config.max_batch_size
        if 0 < most < config.max_batch_size:
            yield _error(
                model,
                f"the ensemble has max_batch_size {config.max_batch_size}, and its part {part.name} {most}",
                f"set `max_batch_size: {most}` here, or raise that of the part",
                "max_batch_size",
            )
        if step.model_version > 0 and str(step.model_version) not in {
            version.name for version in part.versions
        }:
            yield _error(
                model,
                f"step {index + 1} needs version {step.model_version} of {part.name}, which is missing",
                "set `model_version: -1` for the latest",
                *place,
                "model_version",
            )
        for kind, mapping in (("input", step.input_map), ("output", step.output_map)):
            yield from _mapping(model, part, kind, dict(mapping), tensors, place)


def _mapping(
    model: ModelFolder,
    part: ModelFolder,
    kind: str,
    mapping: Mapping[str, str],
    outer_tensors: dict[str, _Tensor],
    place: tuple[str | int, ...],
) -> Iterator[Finding]:
    tensors = {tensor.name: tensor for tensor in getattr(part.config, kind)}
    field = f"{kind}_map"
    if not tensors:
        return  # the backend completes them at load
    for name, outer in sorted(mapping.items()):
        if name not in tensors:
            yield _error(
                model,
                f"{part.name} has no {kind} {name!r}",
                suggest(name, tensors, f"allowed: {', '.join(tensors)}"),
                *place,
                field,
            )
            continue
        yield from _agreement(
            model, outer_tensors, outer, _tensor(tensors[name], part.config, part.name), place
        )
    for name, tensor in tensors.items():
        if kind == "input" and name not in mapping and not tensor.optional:
            yield _error(
                model,
                f"the input {name!r} of {part.name} is not mapped",
                "add it to input_map",
                *place,
                field,
            )


def _agreement(
    model: ModelFolder,
    tensors: dict[str, _Tensor],
    name: str,
    tensor: _Tensor,
    place: tuple[str | int, ...],
) -> Iterator[Finding]:
    before = tensors.setdefault(name, tensor)
    if before.datatype != tensor.datatype:
        yield _error(
            model,
            f"{name!r} is {datatype_name(before.datatype)} in {before.model} and "
            f"{datatype_name(tensor.datatype)} in {tensor.model}",
            "use one type: ensembles convert none",
            *place,
        )
    elif not before.fits(tensor):
        yield _error(
            model,
            f"{name!r} has dims {list(before.full)} in {before.model} and {list(tensor.full)} in "
            f"{tensor.model}",
            "use the same dims, or -1",
            *place,
        )


def _flow(model: ModelFolder) -> Iterator[Finding]:
    """Yield tensors that are never computed, computed twice, or never used."""
    config = model.config
    steps = list(config.ensemble_scheduling.step)
    inputs = {tensor.name for tensor in config.input}
    outputs = {tensor.name for tensor in config.output}
    computed = [name for step in steps for name in step.output_map.values()]
    used = {name for step in steps for name in step.input_map.values()}
    for name in sorted(name for name, count in Counter(computed).items() if count > 1):
        yield _error(model, f"several outputs are mapped to {name!r}", "rename one", "ensemble_scheduling")
    for name in sorted(inputs - used):
        yield _error(model, f"no step uses the input {name!r}", "remove it", "input")
    ready = _ready(steps, inputs)
    for name in sorted(outputs - ready):
        cause = "its steps wait for each other" if name in computed else "no step has it in its output_map"
        yield _error(
            model, f"the output {name!r} is never computed: {cause}", "correct the mappings", "output"
        )
    for name in sorted(used - ready - inputs):
        cause = "its steps wait for each other" if name in computed else "no step computes it"
        yield _error(
            model,
            f"a step needs {name!r}: {cause}",
            "map it to an input of the ensemble or an output of an earlier step",
            "ensemble_scheduling",
        )
    for name in sorted(set(computed) - used - outputs):
        yield _error(
            model,
            f"nothing uses {name!r}: Triton rejects unused tensors",
            "remove it from output_map",
            "ensemble_scheduling",
        )


def _ready(steps: Sequence[Any], inputs: set[str]) -> set[str]:
    """Return the tensors that can be computed from the inputs."""
    ready = set(inputs)
    waiting = [(set(step.input_map.values()), set(step.output_map.values())) for step in steps]
    while able := [outputs for needed, outputs in waiting if needed <= ready]:
        waiting = [step for step in waiting if not step[0] <= ready]
        ready.update(*able)
    return ready


def _cycles(models: Mapping[str, ModelFolder]) -> Iterator[Finding]:
    """Yield ensembles that contain themselves."""
    needs = {
        name: {step.model_name for step in model.config.ensemble_scheduling.step}
        for name, model in models.items()
    }
    for name, model in models.items():
        reached, new = set[str](), set(needs[name])
        while new:
            reached |= new
            new = {part for step in new for part in needs.get(step, ())} - reached
        if name in reached:
            yield _error(
                model, f"the ensemble {name} contains itself", "remove the step", "ensemble_scheduling"
            )


def _tensor(tensor: Any, config: Any, model: str) -> _Tensor:
    is_outer = is_ensemble(config) and tensor.HasField("reshape")
    dims = tensor.reshape.shape if is_outer else tensor.dims
    return _Tensor(tensor.data_type, tuple(dims), config.max_batch_size > 0, model)
