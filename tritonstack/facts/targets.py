"""Targets: the hardware an artifact is built for, derived from the endpoint's instance type and release.

cpu             any x86-64 machine
sm86-24.09      one GPU compute capability and one Triton release
cpu-py310       the same, for artifacts with code bound to one Python version of the release's image
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from tritonstack.facts.hardware import InstanceType
from tritonstack.facts.releases import TritonRelease, python_tag

_TARGET = re.compile(r"(?:cpu|sm(?P<capability>\d{2,3})-(?P<release>\d{2}\.\d{2}))(?:-(?P<python>py3\d+))?")


@dataclass(frozen=True)
class Target:
    """The hardware, and the Python version if the artifact depends on it."""

    hardware: str
    python: str | None = None

    @property
    def has_gpu(self) -> bool:
        """Whether it is for machines with a GPU."""
        return self.hardware != "cpu"

    def __str__(self) -> str:
        return f"{self.hardware}-{self.python}" if self.python else self.hardware


def parse_target(text: str) -> Target:
    """Parse the text form of a target."""
    match = _TARGET.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid target {text!r}; write one such as cpu, sm86-24.09, or cpu-py310")
    python = match["python"]
    return Target(text.removesuffix(f"-{python}") if python else text, python)


def hardware_of(text: str) -> str:
    """Return `cpu` or a compute capability such as `sm86`."""
    return parse_target(text).hardware.partition("-")[0]


def release_of(text: str) -> str | None:
    """Return the Triton release of a GPU target; None for CPU targets."""
    return parse_target(text).hardware.partition("-")[2] or None


def compete(target: str, other: str) -> bool:
    """Check whether two targets compete for the same machines: equal hardware, only one bound to a Python."""
    first, second = parse_target(target), parse_target(other)
    return first.hardware == second.hardware and (first.python is None) != (second.python is None)


def _check_target(text: str) -> str:
    parse_target(text)
    return text


TargetText = Annotated[str, AfterValidator(_check_target)]


def hardware_target(instance: InstanceType, release: TritonRelease) -> str:
    """Return the hardware part of the target for an endpoint."""
    hardware = instance.family.hardware
    return hardware if hardware == "cpu" else f"{hardware}-{release.name}"


def acceptable_targets(
    instance: InstanceType, release: TritonRelease, python: str | None = None
) -> tuple[str, ...]:
    """Return the targets whose artifacts an endpoint can run, the most specific first.

    `python` (3.11) is the serving Python if it differs from the release image's.
    """
    hardware = hardware_target(instance, release)
    return (str(Target(hardware, python_tag(python or release.python))), hardware)
