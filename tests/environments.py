"""Random valid environments: every kind of endpoint with every option it can have."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.projects import add_builder
from tritonstack.base.paths import Project
from tritonstack.facts.drivers import HOST_IMAGES, ami_violation, cuda_violation
from tritonstack.facts.hardware import INSTANCE_TYPES, InstanceType
from tritonstack.facts.images import has_image
from tritonstack.facts.regions import OFFERED
from tritonstack.facts.releases import RELEASES, TritonRelease
from tritonstack.files.endpoint.rules import MULTI_MODEL_GPUS
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.project.build_machines import build_machine_for

Draw = Callable[[st.SearchStrategy[Any]], Any]
Data = dict[str, Any]

ENSEMBLES = ("encoder", "encoder-two")
SINGLES = ("plain", "plain-two")
NAME = "random"

EXAMPLES = os.environ.get("TRITONSTACK_EXAMPLES")
"""How many examples a property is tried with. Given, they are new ones in every run."""


def many(usual: int) -> settings:
    """Use the same examples in every run, unless TRITONSTACK_EXAMPLES asks for more."""
    return settings(
        max_examples=int(EXAMPLES or usual),
        derandomize=EXAMPLES is None,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def write_environment(folder: Path, data: Data) -> Project:
    """Write a project whose one environment is `data`, with the models it may serve."""
    project = Project(folder)
    add_builder(folder)
    project.environments_dir.mkdir(parents=True, exist_ok=True)
    for name in (*ENSEMBLES, *SINGLES):
        file = project.model_file(name)
        if not file.exists():
            file.parent.mkdir(parents=True)
            tokens = "input: tokens, " if name in SINGLES else ""
            file.write_text(
                f"name: {name}\ndescription: For tests.\nsource: file://weights\n"
                f"recipe: {{{tokens}kind: text-embedding}}\ntest_inputs: [A text.]\n"
            )
    project.environment_file(NAME).write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    return project


def maybe(draw: Draw, data: Data, key: str, strategy: st.SearchStrategy[Any]) -> None:
    """Set a key in `data`, or leave its default."""
    if draw(st.booleans()):
        data[key] = draw(strategy)


@st.composite
def environments(draw: Draw) -> Data:
    """One environment as a file would define it."""
    region = draw(st.sampled_from(("eu-west-1", "us-east-1", "us-west-2", "ap-northeast-1", "eu-south-2")))
    release = draw(
        st.sampled_from([item for item in RELEASES.values() if has_image(region=region, release=item.name)])
    )
    machines = usable(region, release)
    data: Data = {
        "name": NAME,
        "account": draw(st.sampled_from(("111111111111", "000000000000"))),
        "region": region,
        "triton_release": release.name,
    }
    maybe(draw, data, "name_prefix", st.sampled_from(("tritonstack", "team-search", "x")))
    maybe(draw, data, "removal", st.sampled_from(("retain", "destroy")))
    maybe(draw, data, "alarm_emails", st.just(["on-call@example.com"]))
    maybe(draw, data, "tags", st.just({"team": "search", "cost-centre": "17"}))
    maybe(draw, data, "permissions_boundary", st.just("team-boundary"))
    maybe(draw, data, "network", networks())
    names = draw(
        st.lists(st.from_regex(r"[a-z][a-z0-9]{0,7}", fullmatch=True), min_size=1, max_size=3, unique=True)
    )
    data["endpoints"] = {name: draw(endpoints(machines, release)) for name in names}
    maybe(draw, data, "prices", st.just({machines[0].name: 0.5}))
    return data


def usable(region: str, release: TritonRelease) -> list[InstanceType]:
    """Return the instance types of a region that a release runs on and that have a build machine."""
    building = EnvironmentSpec.model_validate(
        {
            "name": NAME,
            "account": "111111111111",
            "region": region,
            "triton_release": release.name,
            "endpoints": {},
        }
    )
    return [
        instance
        for instance in INSTANCE_TYPES.values()
        if instance.family.name in OFFERED[region]
        and build_machine_for(building, instance) is not None
        and float(instance.family.compute_capability or "99") >= float(release.min_compute_capability)
        and cuda_violation(instance, release) is None
    ]


def networks() -> st.SearchStrategy[Data]:
    """A new network, or an existing one."""
    made = st.fixed_dictionaries(
        {}, optional={"cidr": st.just("10.80.0.0/18"), "availability_zones": st.integers(2, 3)}
    )
    existing = {
        "vpc_id": "vpc-0a1b2c3d",
        "subnet_ids": ["subnet-0a1b2c3d", "subnet-1a1b2c3d"],
        "security_group_ids": ["sg-0a1b2c3d"],
    }
    return st.one_of(made.map(lambda new: {"create": new}), st.just({"existing": existing}))


@st.composite
def endpoints(draw: Draw, machines: list[InstanceType], release: TritonRelease) -> Data:
    """One endpoint of any kind."""
    kind = draw(st.sampled_from(("single", "ensemble", "multi-model")))
    if kind == "multi-model":
        return draw(multi_model_endpoints(machines, release))
    mode = draw(st.sampled_from(("real-time", "asynchronous", "components", "challenger", "shadow")))
    instance: InstanceType = draw(st.sampled_from(machines))
    if mode == "components" and instance.family.burstable:
        mode = "real-time"
    pool = SINGLES if kind == "single" else ENSEMBLES
    data: Data = {"kind": kind, "model": draw(st.sampled_from(pool)), "instance_type": instance.name}
    variants = [instance]
    if mode in ("challenger", "shadow"):
        data[mode] = second = {}
        maybe(draw, second, "model", st.sampled_from(pool))
        maybe(draw, second, "share", st.floats(0.01, 1))
        if draw(st.booleans()):
            variants.append(draw(st.sampled_from(machines)))
            second["instance_type"] = variants[-1].name
    if mode == "asynchronous":
        data[mode] = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "max_concurrent_per_instance": st.integers(1, 1000),
                    "expiry_days": st.integers(1, 3650),
                },
            )
        )
    draw(options(data, variants, release, mode))
    return data


@st.composite
def multi_model_endpoints(draw: Draw, machines: list[InstanceType], release: TritonRelease) -> Data:
    """An endpoint of several models."""
    fitting = [
        machine
        for machine in machines
        if not machine.gpus or (machine.gpus == 1 and machine.family.name in MULTI_MODEL_GPUS)
    ]
    instance: InstanceType = draw(st.sampled_from(fitting))
    data: Data = {
        "kind": "multi-model",
        "models": draw(st.lists(st.sampled_from((*ENSEMBLES, *SINGLES)), min_size=1, unique=True)),
        "instance_type": instance.name,
    }
    maybe(draw, data, "model_cache", st.booleans())
    draw(options(data, [instance], release, "real-time"))
    return data


@st.composite
def options(draw: Draw, data: Data, variants: list[InstanceType], release: TritonRelease, mode: str) -> None:
    """Add the options that every kind has."""
    gpu = all(variant.gpus for variant in variants)
    burstable = any(variant.family.burstable for variant in variants)
    least = 0 if mode in ("asynchronous", "components") else 1
    if burstable or draw(st.booleans()):
        data["scaling"] = draw(scalings(least, mode, gpu=gpu, burstable=burstable))
    if "challenger" in data or "shadow" in data:
        maybe(draw, data[mode], "scaling", scalings(least, mode, gpu=gpu, burstable=burstable))
    maybe(draw, data, "alarms", alarms(mode))
    if mode == "components":
        data["components"] = draw(components(data, variants[0]))
    if mode != "asynchronous":
        maybe(draw, data, "data_capture", captures())
    maybe(draw, data, "log_retention_days", st.sampled_from((1, 30, 365)))
    maybe(draw, data, "startup_timeout_s", st.integers(60, 900))
    maybe(draw, data, "download_timeout_s", st.integers(60, 900))
    maybe(draw, data, "network_isolation", st.booleans())
    maybe(draw, data, "environment", variables())
    amis = [
        ami
        for ami in HOST_IMAGES
        if all(ami_violation(ami, variant, release) is None for variant in variants)
    ]
    if amis:
        maybe(draw, data, "inference_ami", st.sampled_from(amis))
    maybe(draw, data, "rollout", rollouts(data, mode, gpu=gpu))


@st.composite
def scalings(draw: Draw, least: int, mode: str, *, gpu: bool, burstable: bool) -> Data:
    """Limits, metrics, steps, and schedules that this mode allows."""
    low = draw(st.integers(least, 5))
    data: Data = {"min_instances": low}
    data["max_instances"] = max(1, low) + (0 if burstable else draw(st.integers(0, 9)))
    if burstable and low == 0:
        data["min_instances"] = 1
    measures: dict[str, st.SearchStrategy[float]]
    if mode == "asynchronous":
        measures = {"backlog_per_instance": st.floats(0.5, 100)}
    else:
        measures = {
            "invocations_per_instance": st.integers(1, 10**6),
            "concurrent_requests_per_model": st.floats(0.5, 100),
        }
    if gpu:
        measures["gpu_utilization_percent"] = st.floats(1, 100)
    if mode != "components":
        for measure, values in measures.items():
            maybe(draw, data, measure, values)
        maybe(draw, data, "steps", steps(tuple(measures)))
    if not burstable:
        maybe(draw, data, "schedules", schedules(least))
    maybe(draw, data, "scale_out_cooldown_s", st.integers(0, 3600))
    maybe(draw, data, "scale_in_cooldown_s", st.integers(0, 3600))
    return data


@st.composite
def steps(draw: Draw, measures: tuple[str, ...]) -> Data:
    """Step scaling with rising bounds."""
    bounds = sorted(draw(st.sets(st.integers(10, 1000), min_size=1, max_size=4)))
    return {
        "metric": draw(st.sampled_from((*measures, "cpu_utilization_percent"))),
        "scale_out": [{"above": bound, "add": index + 1} for index, bound in enumerate(bounds)],
        "scale_in": {"below": draw(st.integers(1, 9))},
    }


@st.composite
def schedules(draw: Draw, least: int) -> Data:
    """One to three times of day with their own limits."""
    result: Data = {}
    for name in draw(st.lists(st.sampled_from(("office", "evening", "night")), min_size=1, unique=True)):
        low = draw(st.integers(least, 4))
        result[name] = {"at": "08:30", "min": low, "max": low + draw(st.integers(0, 4))}
        maybe(draw, result[name], "days", st.sampled_from(("MON-FRI", "SAT,SUN")))
        maybe(draw, result[name], "timezone", st.sampled_from(("Europe/Berlin", "UTC")))
    return result


@st.composite
def components(draw: Draw, endpoint: Data, instance: InstanceType) -> Data:
    """A component that fits on an instance, with enough instances for its copies."""
    low = draw(st.integers(0, 3))
    data: Data = {"min_copies": low, "max_copies": max(1, low) + draw(st.integers(0, 3))}
    data["memory_mb"] = draw(st.integers(128, int(instance.memory_gib * 512)))
    maybe(draw, data, "cpus", st.floats(0.25, instance.vcpus))
    if instance.gpus:
        maybe(draw, data, "accelerators", st.integers(1, instance.gpus))
    maybe(draw, data, "invocations_per_copy", st.integers(1, 1000))
    maybe(draw, data, "concurrent_requests_per_copy", st.floats(0.5, 50))
    scaling = endpoint.setdefault("scaling", {})
    copies = [data["max_copies"], *(item["max"] for item in scaling.get("schedules", {}).values())]
    scaling["max_instances"] = max(scaling.get("max_instances", 2), *copies, 1)
    return data


def alarms(mode: str) -> st.SearchStrategy[Data]:
    """Thresholds, some of them omitted."""
    number = st.one_of(st.none(), st.integers(1, 100))
    names = (
        "latency_p99_ms",
        "overhead_p99_ms",
        "server_errors",
        "client_errors",
        "min_invocations",
        "gpu_memory_percent",
        "triton_errors",
    )
    optional = dict.fromkeys(names, number)
    if mode == "asynchronous":
        optional["backlog"] = number
    return st.fixed_dictionaries({}, optional=optional)


def captures() -> st.SearchStrategy[Data]:
    """Data capture."""
    return st.fixed_dictionaries(
        {},
        optional={
            "sampling_percent": st.integers(1, 100),
            "content": st.sampled_from((["input"], ["output"], ["input", "output"])),
            "expiry_days": st.integers(1, 3650),
        },
    )


def variables() -> st.SearchStrategy[dict[str, str]]:
    """Environment variables of serve and others."""
    return st.dictionaries(
        st.from_regex(r"OWN_[A-Z0-9_]{0,20}", fullmatch=True), st.text("abc 123/=", max_size=40), max_size=3
    ).map(lambda own: {**own, "SAGEMAKER_TRITON_THREAD_COUNT": "16"})


_NEARLY_ALWAYS_THERE = ("latency-p99", "overhead-p99", "server-errors", "client-errors", "triton-errors")


@st.composite
def rollouts(draw: Draw, endpoint: Data, mode: str, *, gpu: bool) -> Data:
    """A rollout that the endpoint's number of instances allows."""
    scaled = [endpoint.get("scaling", {}), endpoint.get(mode, {}).get("scaling", {})]
    lows = [
        low
        for scaling in scaled
        for low in (
            scaling.get("min_instances", 1 if scaling is scaled[0] or scaling else 99),
            *(item["min"] for item in scaling.get("schedules", {}).values()),
        )
    ]
    least = min(lows)
    if mode == "components":
        data: Data = {"strategy": "rolling", "batch_percent": draw(st.integers(25, 50))}
    else:
        strategies = ["all-at-once"]
        if least >= 2:
            strategies += ["canary", "linear"] + ([] if mode in ("challenger", "shadow") else ["rolling"])
        strategy = draw(st.sampled_from(strategies))
        data = {"strategy": strategy}
        field = {"canary": "percent", "linear": "step_percent", "rolling": "batch_percent"}.get(strategy)
        if field:
            data[field] = draw(st.integers(max(25, math.ceil(100 / least)), 50))
    if data["strategy"] == "all-at-once":
        maybe(draw, data, "bake_s", st.integers(0, 3600))
    else:
        maybe(draw, data, "wait_s", st.integers(0, 600))
    there = [
        alarm
        for alarm, field in zip(
            _NEARLY_ALWAYS_THERE,
            ("latency_p99_ms", "overhead_p99_ms", "server_errors", "client_errors", "triton_errors"),
            strict=True,
        )
        if endpoint.get("alarms", {}).get(field, 1) is not None
        and (alarm, mode) not in (("overhead-p99", "asynchronous"), ("triton-errors", "shadow"))
    ]
    if gpu and endpoint.get("alarms", {}).get("gpu_memory_percent", 1) is not None:
        there.append("gpu-memory")
    if there:
        maybe(draw, data, "roll_back_on", st.lists(st.sampled_from(there), max_size=5, unique=True))
    return data
