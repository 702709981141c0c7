"""Write `triton` of model.yaml into a configuration: instances, optimization, and version policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from model_build.repository.config import model_config_schema
from tritonstack.base.error_kinds import InvalidValueError, UnavailableOptionError
from tritonstack.base.yaml import Violation
from tritonstack.facts.targets import Target
from tritonstack.files.model.triton_options import InstanceGroup, TritonOptions


def place_instances(config: Any, triton: TritonOptions, *, gpu: bool, default: int = 1) -> None:
    """Add the instance groups; by default one group, on the GPU if the model is built for one."""
    kinds = model_config_schema().ModelInstanceGroup
    for group in triton.instances or (InstanceGroup(count=default),):
        on_gpu = gpu and group.device != "cpu"
        config.instance_group.add(
            count=group.count,
            kind=kinds.KIND_GPU if on_gpu else kinds.KIND_CPU,
            gpus=group.gpus,
            profile=group.profiles,
        )


def instance_violations(triton: TritonOptions, target: Target, profiles: int = 0) -> Iterator[Violation]:
    """Report groups that the target or the engine cannot run; `profiles` is how many the engine has."""
    for index, group in enumerate(triton.instances):
        path = ("triton", "instances", index)
        if not target.has_gpu and (group.gpus or group.device == "gpu"):
            yield UnavailableOptionError.at(
                (*path, "gpus" if group.gpus else "device"),
                "the model is built for a CPU and cannot use a GPU",
                "remove it, or serve the model on an instance type with a GPU",
            )
        for position, profile in enumerate(group.profiles if profiles else ()):
            if int(profile) >= profiles:
                yield InvalidValueError.at(
                    (*path, "profiles", position),
                    f"the engine has {profiles} profiles, numbered from 0",
                    f"use a number from 0 to {profiles - 1}",
                )


def optimize(config: Any, triton: TritonOptions) -> None:
    """Set the backend's optimization."""
    options, optimization = triton.optimization, config.optimization
    if options.graph_level is not None:
        optimization.graph.SetInParent()
        optimization.graph.level = options.graph_level
    if options.cuda_graphs:
        optimization.cuda.graphs = True
    if options.pinned_memory is not None:
        for pinned in (optimization.input_pinned_memory, optimization.output_pinned_memory):
            pinned.SetInParent()
            pinned.enable = options.pinned_memory


def choose_versions(config: Any, triton: TritonOptions) -> None:
    """Set the version policy; Triton's default, the latest, is omitted."""
    versions = triton.versions
    if versions is None:
        return
    policy = config.version_policy
    if versions.all:
        policy.all.SetInParent()
    elif versions.specific:
        policy.specific.versions.extend(sorted(set(versions.specific)))
    else:
        policy.latest.num_versions = versions.latest or 1
