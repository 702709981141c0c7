"""Merge the models of several artifacts into one repository: names, steps, and packages.

Multi-model hosting detects an archive's single ensemble by its text, so nested ensembles are impossible:
their parts become <model>-<part>, and their steps become steps of the outer ensemble.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from model_build.environments.packing import ARCHIVE_NAME, ENV_PARAMETER, ENV_PARAMETER_VALUE
from model_build.repository.config import CONFIG_NAME, parse_config, read_config, write_config
from model_build.repository.parts import SchedulingStep
from tritonstack.base.files import sha256_of

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
