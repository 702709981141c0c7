"""Merge the models of several artifacts into one repository: names, steps, and packages.

Multi-model hosting detects an archive's single ensemble by its text, so nested ensembles are impossible:
their parts become <model>-<part>, and their steps become steps of the outer ensemble.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from model_build.environments.packing import ARCHIVE_NAME, ENV_PARAMETER, ENV_PARAMETER_VALUE
from model_build.repository.config import (
    CONFIG_NAME,
    add_ensemble_step,
    model_config_schema,
    parse_config,
    read_config,
    write_config,
)
from model_build.repository.layout import ENSEMBLE_TEXT
from model_build.repository.parts import VERSION, SchedulingStep, add_ensemble
from tritonstack.base.files import sha256_of
from tritonstack.files.records.manifests import TensorSpec

SHARED = f"$$TRITON_MODEL_DIRECTORY/../{{}}/{ARCHIVE_NAME}"
"""The environment of another model in the same repository."""
_NAME = r"[^/\"]+"


@dataclass(frozen=True)
class MemberFolder:
    """An unpacked artifact."""

    name: str
    entry: str
    folder: Path

    @property
    def config(self) -> Any:
        """The configuration of the entry model."""
        return read_config(self.folder / self.entry / CONFIG_NAME)

    def part_name(self, part: str) -> str:
        """Name of one of its models in the merged repository."""
        return self.name if part == self.entry else f"{self.name}-{part}"


def flat_steps(
    member: MemberFolder, index: int, inputs: Mapping[str, str], outputs: Mapping[str, str]
) -> Iterator[SchedulingStep]:
    """Expand one use of a member into steps; internal tensors get unique names."""
    config = member.config
    if not config.ensemble_scheduling.step:
        yield SchedulingStep(member.name, dict(inputs), dict(outputs))
        return
    outer = {**inputs, **outputs}

    def renamed(tensor: str) -> str:
        return outer.get(tensor, f"step{index + 1}-{tensor}")

    for step in config.ensemble_scheduling.step:
        yield SchedulingStep(
            member.part_name(step.model_name),
            {name: renamed(tensor) for name, tensor in sorted(step.input_map.items())},
            {name: renamed(tensor) for name, tensor in sorted(step.output_map.items())},
        )


def needed_steps(steps: Sequence[SchedulingStep], outputs: Collection[str]) -> list[SchedulingStep]:
    """Drop steps with unused outputs: Triton rejects ensembles with unused tensors."""
    needed, required = [], set(outputs)
    for step in reversed(steps):
        outputs_used = {name: tensor for name, tensor in step.outputs.items() if tensor in required}
        if outputs_used:
            needed.append(SchedulingStep(step.model, step.inputs, outputs_used))
            required |= set(step.inputs.values())
    return needed[::-1]


def copy_parts(member: MemberFolder, repository: Path, needed: Collection[str]) -> None:
    """Copy the required models under their new names."""
    for part in sorted(entry for entry in member.folder.iterdir() if entry.is_dir()):
        name = member.part_name(part.name)
        if name in needed and not (repository / name).exists():
            shutil.copytree(part, repository / name)
            _own_environment(member.folder, repository / name)
            rename_model(repository / name)


def share_environments(repository: Path) -> dict[str, str]:
    """Keep one of several identical environments; map each model to the one it uses.

    Triton unpacks an archive once for all models that name it, so they also start faster. Sharing models name
    a file outside their folder, which the Python backend's documentation leaves undefined: a remote
    repository is fetched per model, without the neighbor's file. SageMaker puts the whole archive on disk, so
    the path resolves in both hosting modes. Every such artifact is served in both modes before it is kept.
    """
    first: dict[str, str] = {}
    used: dict[str, str] = {}
    for file in sorted(repository.glob(f"*/{ARCHIVE_NAME}")):
        name = file.parent.name
        first_name = used[name] = first.setdefault(sha256_of(file), name)
        if first_name != name:
            config = file.parent / CONFIG_NAME
            if read_config(config).parameters[ENV_PARAMETER].string_value != ENV_PARAMETER_VALUE:
                used[name] = name  # it names an external file, which stays unchanged
                continue
            shared = SHARED.format(first_name)
            config.write_text(
                config.read_text(encoding="utf-8").replace(ENV_PARAMETER_VALUE, shared), encoding="utf-8"
            )
            file.unlink()
    return used


def _own_environment(source: Path, folder: Path) -> None:
    """Give a copied model its own environment if it shares a neighbor's, which gets another name."""
    file = folder / CONFIG_NAME
    text = file.read_bytes().decode("utf-8")
    match = re.search(re.escape(SHARED).replace(r"\{\}", f"({_NAME})"), text)
    if match is not None:
        shutil.copyfile(source / match[1] / ARCHIVE_NAME, folder / ARCHIVE_NAME)
        file.write_bytes(text.replace(match[0], ENV_PARAMETER_VALUE).encode("utf-8"))


def rename_model(folder: Path) -> None:
    """Set the folder's name in its configuration, changing nothing else if possible."""
    file = folder / CONFIG_NAME
    text = file.read_bytes().decode("utf-8")
    config = parse_config(text)
    if config.name in ("", folder.name):
        return
    changed = re.sub(
        rf'^(name\s*:\s*)"{re.escape(config.name)}"', rf'\g<1>"{folder.name}"', text, count=1, flags=re.M
    )
    config.name = folder.name
    if _parses_to(changed, config):
        file.write_bytes(changed.encode("utf-8"))
    else:
        write_config(config, folder)


def _parses_to(text: str, config: Any) -> bool:
    try:
        return bool(parse_config(text) == config)
    except text_format.ParseError:
        return False


# Put the models that Python code calls into its repository, so that both hosting modes load them. Triton
# loads a model with its dependencies: the steps of an ensemble. Calls from Python code are none. Both hosting
# modes load one model, the entry, so the repository makes the called models steps that never run:
#
#     judge         ensemble, the entry: one step, judge-calls, of which it requests the callers' outputs
#     judge-calls   ensemble: judge-logic; and each called model, with inputs from another step of judge-logic
#     judge-logic   the user's code
#     mood-3f0c...  a called model
#
# Triton does not run the steps of an ensemble whose outputs nobody requests, and `judge` requests no output
# of the called models. Their inputs are outputs that judge-logic declares and never returns.
#
# Multi-model hosting detects the entry by the text `platform: "ensemble"`, so other ensembles have a space
# before the colon. A call names a model without its archive, and Triton rejects a name that two archives in a
# container have. So the names of called models end with a digest of all files; the served code maps the names
# in model.yaml to them.

LOGIC, CALLS = "logic", "calls"
NAMES_FILE = "called_models.json"
"""Beside the user's code: the names in model.yaml, and those in the repository."""
OWN_CODE = "own_model.py"
"""The user's code in the repository, beside `model.py`, which maps the names."""
CALLING_MODEL = Path(__file__).parents[1] / "served/calling_model.py"
HIDDEN = 'platform : "ensemble"'
DIGITS = 12


def logic_name(model: str) -> str:
    """Return the name of the model with the user's code."""
    return f"{model}-{LOGIC}"


def called_folders(
    repository: Path, members: Mapping[str, MemberFolder], digests: Mapping[str, str]
) -> dict[str, MemberFolder]:
    """Give the called models names that no other artifact has; `digests` are those of their artifacts."""
    files = sorted(path for path in repository.rglob("*") if path.is_file())
    content = [(path.relative_to(repository).as_posix(), sha256_of(path)) for path in files]
    text = json.dumps([content, sorted(digests.items())])
    suffix = hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
    return {
        name: MemberFolder(f"{name}-{suffix}", member.entry, member.folder)
        for name, member in members.items()
    }


def add_called_models(
    repository: Path,
    called: Mapping[str, MemberFolder],
    *,
    name: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    max_batch: int,
) -> dict[str, str]:
    """Add the called models and both ensembles to a repository that holds the user's code.

    Return which model's environment each model uses.
    """
    logic = logic_name(name)
    for member in called.values():
        _copy(member, repository)
    names = {written: member.name for written, member in called.items()}
    (repository / logic / VERSION / NAMES_FILE).write_text(json.dumps(names, indent=1, sort_keys=True) + "\n")
    used = share_environments(repository)
    configs = {member.name: read_config(repository / member.name / CONFIG_NAME) for member in called.values()}
    _declare_inputs(repository / logic, configs)
    calls = f"{name}-{CALLS}"
    takes, gives = ({tensor.name: tensor.name for tensor in tensors} for tensors in (inputs, outputs))
    rows = [[_with_rows(tensor, max_batch) for tensor in tensors] for tensors in (inputs, outputs)]
    add_ensemble(
        repository,
        name=calls,
        inputs=rows[0],
        outputs=rows[1],
        steps=[SchedulingStep(logic, takes, gives)],
        max_batch=0,  # the called models may take smaller batches, or none
    )
    _add_steps(repository / calls, logic, takes, configs)
    _hide(repository / calls)
    add_ensemble(
        repository,
        name=name,
        inputs=inputs,
        outputs=outputs,
        steps=[SchedulingStep(calls, takes, gives)],
        max_batch=max_batch,
    )
    return used


def _copy(member: MemberFolder, repository: Path) -> None:
    """Copy a model with its parts; correct the names in an ensemble, and hide it."""
    parts = [entry.name for entry in member.folder.iterdir() if entry.is_dir()]
    copy_parts(member, repository, {member.part_name(part) for part in parts})
    for part in parts:
        folder = repository / member.part_name(part)
        config = read_config(folder / CONFIG_NAME)
        if config.ensemble_scheduling.step:
            for step in config.ensemble_scheduling.step:
                step.model_name = member.part_name(step.model_name)
            write_config(config, folder)
            _hide(folder)


def _declare_inputs(logic: Path, configs: Mapping[str, Any]) -> None:
    """Declare the inputs of the called models as outputs of the user's code; keep its text."""
    declared = model_config_schema().ModelConfig()
    for model, config in configs.items():
        for tensor in config.input:
            declared.output.add(
                name=_tensor(model, tensor.name), data_type=tensor.data_type, dims=tensor.dims
            )
    file = logic / CONFIG_NAME
    text = file.read_bytes().decode("utf-8")
    file.write_bytes(f"{text.rstrip()}\n{text_format.MessageToString(declared)}".encode())


def _add_steps(folder: Path, logic: str, takes: dict[str, str], configs: Mapping[str, Any]) -> None:
    message = read_config(folder / CONFIG_NAME)
    for model, config in configs.items():
        inputs = {tensor.name: _tensor(model, tensor.name) for tensor in config.input}
        add_ensemble_step(
            message, model=logic, inputs=takes, outputs={name: name for name in inputs.values()}
        )
        first = config.output[0]
        unused = _tensor(model, first.name)
        add_ensemble_step(message, model=model, inputs=inputs, outputs={first.name: unused})
        message.output.add(name=unused, data_type=first.data_type, dims=first.dims)
    write_config(message, folder)


def _tensor(model: str, tensor: str) -> str:
    return f"{model}/{tensor}"


def _with_rows(tensor: TensorSpec, max_batch: int) -> TensorSpec:
    shape = (-1, *tensor.shape) if max_batch else tensor.shape
    return tensor.model_copy(update={"shape": shape, "labels": ()})


def _hide(folder: Path) -> None:
    """Keep multi-model hosting from taking an ensemble for the entry."""
    file = folder / CONFIG_NAME
    file.write_text(ENSEMBLE_TEXT.sub(HIDDEN, file.read_text(encoding="utf-8")), encoding="utf-8")
