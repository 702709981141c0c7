"""Put the models that Python code calls into its repository, so that both hosting modes load them.

Triton loads a model with its dependencies: the steps of an ensemble. Calls from Python code are none. Both
hosting modes load one model, the entry, so the repository makes the called models steps that never run:

    judge         ensemble, the entry: one step, judge-calls, of which it requests the callers' outputs
    judge-calls   ensemble: judge-logic; and each called model, with inputs from another step of judge-logic
    judge-logic   the user's code
    mood-3f0c...  a called model

Triton does not run the steps of an ensemble whose outputs nobody requests, and `judge` requests no output of
the called models. Their inputs are outputs that judge-logic declares and never returns.

Multi-model hosting detects the entry by the text `platform: "ensemble"`, so other ensembles have a space
before the colon. A call names a model without its archive, and Triton rejects a name that two archives in a
container have. So the names of called models end with a digest of all files; the served code maps the names
in model.yaml to them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from model_build.repository.config import (
    CONFIG_NAME,
    add_ensemble_step,
    model_config_schema,
    read_config,
    write_config,
)
from model_build.repository.flattening import MemberFolder, copy_parts, share_environments
from model_build.repository.layout import ENSEMBLE_TEXT
from model_build.repository.parts import VERSION, SchedulingStep, add_ensemble
from tritonstack.base.files import sha256_of
from tritonstack.files.records.manifests import TensorSpec

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
