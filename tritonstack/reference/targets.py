"""What an artifact is built for. A target follows from an endpoint; nobody types one.

cpu             any x86-64 machine
sm86-24.09      one GPU compute capability under one Triton release
cpu-py310       the same, when the artifact holds code bound to one Python of the release's image
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from tritonstack.reference.hardware import InstanceType
from tritonstack.reference.releases import TritonRelease, python_tag

_TARGET = re.compile(r"(?:cpu|sm(?P<capability>\d{2,3})-(?P<release>\d{2}\.\d{2}))(?:-(?P<python>py3\d+))?")


@dataclass(frozen=True)
class Target:
    """The machine, and where it matters the Python, that an artifact needs."""

    hardware: str
    python: str | None = None

    def __str__(self) -> str:
        return f"{self.hardware}-{self.python}" if self.python else self.hardware


def parse_target(text: str) -> Target:
    """The target that `str` wrote."""
    match = _TARGET.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a target; targets read cpu, sm86-24.09 or cpu-py310")
    python = match["python"]
    return Target(text.removesuffix(f"-{python}") if python else text, python)


def hardware_of(text: str) -> str:
    """`cpu` or a compute capability such as `sm86`."""
    return parse_target(text).hardware.partition("-")[0]


def release_of(text: str) -> str | None:
    """The Triton release that a GPU's target names; None for a CPU's."""
    return parse_target(text).hardware.partition("-")[2] or None


def are_rivals(one: str, other: str) -> bool:
    """Whether the same machines look for both, and take the one for their Python whatever its age."""
    first, second = parse_target(one), parse_target(other)
    return first.hardware == second.hardware and (first.python is None) != (second.python is None)


def _check_target(text: str) -> str:
    parse_target(text)
    return text


TargetText = Annotated[str, AfterValidator(_check_target)]


def hardware_target(instance: InstanceType, release: TritonRelease) -> str:
    """The hardware part of the target that an endpoint asks for."""
    hardware = instance.family.hardware
    return hardware if hardware == "cpu" else f"{hardware}-{release.name}"


def acceptable_targets(
    instance: InstanceType, release: TritonRelease, python: str | None = None
) -> tuple[str, ...]:
    """The targets whose artifacts an endpoint can run, the most specific first.

    `python` (3.11) is the Python that serves, if it is not that of the release's image.
    """
    hardware = hardware_target(instance, release)
    return (str(Target(hardware, python_tag(python or release.python))), hardware)
