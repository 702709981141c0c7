"""Environment variables of a container: what the image's `serve` script reads, and what would break it.

`serve` passes most variables to Triton's command line unchanged. If Triton cannot parse a value, the
container exits before it is healthy, and the deployment usually fails only after an hour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tritonstack.base.error_kinds import InvalidValueError, UnavailableOptionError
from tritonstack.base.yaml import Violation, closest
from tritonstack.facts.releases import TritonRelease
from tritonstack.facts.threads import OPENMP, RAYON, Threads

MOST_VCPUS = 1000
"""More than any instance type has."""
MOST_VARIABLES = 100
LONGEST_BYTES = 1024
"""Maximum size of a name or a value."""
MOST_BYTES = 32 * 1024
"""Maximum size of all names and values together."""

DEFAULT_MODEL_NAME = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"
LOG_VERBOSE = "SAGEMAKER_TRITON_LOG_VERBOSE"
PING_MODE = "SAGEMAKER_TRITON_PING_MODE"
INFERENCE_TYPE = "SAGEMAKER_TRITON_INFERENCE_TYPE"
ADDITIONAL_ARGS = "SAGEMAKER_TRITON_ADDITIONAL_ARGS"
HTTP_THREADS = "SAGEMAKER_TRITON_THREAD_COUNT"
SHARED_MEMORY = "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE"
STREAMING = "generate_stream"
GENERATING = ("generate", STREAMING)
"""Inference types of decoupled models: one response, or a stream."""
_PREFIX = "SAGEMAKER_TRITON_"

RESERVED: dict[str, str] = {
    DEFAULT_MODEL_NAME: "it is derived from the endpoint's model",
    PING_MODE: "it is always set; use SAGEMAKER_TRITON_OVERRIDE_PING_MODE instead",
    "SAGEMAKER_MULTI_MODEL": "it is derived from the endpoint's kind",
    "SAGEMAKER_BIND_TO_PORT": "SageMaker chooses the port",
    "SAGEMAKER_SAFE_PORT_RANGE": "SageMaker chooses the ports",
}
"""Variables that a file cannot set, each with the reason."""


class _Reading(NamedTuple):
    """Value format that `serve` or Triton accepts."""

    pattern: str
    description: str


_FLAG = _Reading(r"(?i:true|false|1|0)", "true or false")
_COUNT = _Reading(r"[1-9]\d{0,14}", "a positive integer")
_PORT = _Reading(r"[1-9]\d{0,4}", "a port number")
_LEVEL = _Reading(r"(?i:true|false|\d)", "true, false, or a level from 0 to 9")
_FRACTION = _Reading(r"0?\.\d+|1(?:\.0+)?", "a fraction of GPU memory such as 0.8")
_PING = _Reading(r"live|ready", "live or ready")
_INFERENCE = _Reading(r"infer|generate|generate_stream", "infer, generate, or generate_stream")
_ARGUMENTS = _Reading(r"--(?s:.*)", "tritonserver options, each starting with --")

READ_BY_SERVE: dict[str, _Reading] = {
    LOG_VERBOSE: _LEVEL,
    "SAGEMAKER_TRITON_LOG_INFO": _FLAG,
    "SAGEMAKER_TRITON_LOG_WARNING": _FLAG,
    "SAGEMAKER_TRITON_LOG_ERROR": _FLAG,
    HTTP_THREADS: _COUNT,
    "SAGEMAKER_TRITON_BUFFER_MANAGER_THREAD_COUNT": _COUNT,
    SHARED_MEMORY: _COUNT,
    "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE": _COUNT,
    "SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT": _FRACTION,
    "SAGEMAKER_TRITON_ALLOW_GRPC": _FLAG,
    "SAGEMAKER_TRITON_GRPC_PORT": _PORT,
    "SAGEMAKER_TRITON_ALLOW_METRICS": _FLAG,
    "SAGEMAKER_TRITON_METRICS_PORT": _PORT,
    "SAGEMAKER_TRITON_OVERRIDE_PING_MODE": _PING,
    INFERENCE_TYPE: _INFERENCE,
    "SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING": _FLAG,
    "SAGEMAKER_TRITON_TENSORFLOW_VERSION": _COUNT,
    ADDITIONAL_ARGS: _ARGUMENTS,
}

_CHECKED = {**READ_BY_SERVE, OPENMP: _COUNT, RAYON: _COUNT}
"""Formats of variables; served models read the last two."""

SINCE: dict[str, str] = {INFERENCE_TYPE: "25.04"}
"""First release whose image reads the variable."""

_SERVES_OWN = re.compile(
    r"--(allow-sagemaker|allow-http|model-control-mode|model-repository|model-store|sagemaker-port)\b"
)
"""Options that `serve` sets itself; a duplicate breaks SageMaker's HTTP front end."""

WITHOUT_COMPLETION = "--disable-auto-complete-config"
"""Packed configurations are complete. Auto-completion starts an extra process per Python model and load,
which takes more than a second."""
CACHE = "--cache-config"
CACHE_BYTES = 64 << 20
"""Default size of the response cache if a model uses one."""
SHARED_MEMORY_BYTES = 1 << 20
"""Initial shared memory per instance of a Python model; Triton's own default, and it grows on demand. With
the 16 MiB that `serve` sets, four instances fill the usual 64 MiB of a container, and SageMaker offers no way
to raise that."""


class ContainerOptions(NamedTuple):
    """What a container needs to know about its models."""

    entry: str | None = None
    """The entry model of a single-model endpoint; None for a multi-model endpoint."""
    keeps_answers: bool = False
    """Whether any model uses the response cache."""
    generates: bool = False
    """Whether the models are generative language models."""
    threads: Threads | None = None
    """What its thread counts depend on; None if unknown, which leaves them to the libraries."""
    streams: bool = False
    """Whether its model sends any number of responses per request."""


def container_variables(variables: Mapping[str, str], served: ContainerOptions) -> dict[str, str]:
    """Return the variables of a container: the project's defaults, overridden by the file."""
    defaults = {
        # serve's default is true: several lines per request, and CloudWatch charges for each.
        LOG_VERBOSE: "false",
        # serve assigns this variable without exporting it, so Triton sees it only if it was set before. In
        # mode "ready", one model that fails to load makes SageMaker stop a container that serves the others.
        PING_MODE: "ready" if served.entry else "live",
        SHARED_MEMORY: str(SHARED_MEMORY_BYTES),
    }
    if served.entry:
        # The entry model of an ensemble. Triton loads its steps as dependencies.
        defaults[DEFAULT_MODEL_NAME] = served.entry
    if served.generates:
        defaults[INFERENCE_TYPE] = GENERATING[0]
    elif served.threads:
        defaults |= served.threads.variables()
    if served.streams:
        defaults[INFERENCE_TYPE] = STREAMING
    if served.threads and served.entry:
        # On multi-model endpoints, a thread that loads a model answers no ping meanwhile.
        defaults[HTTP_THREADS] = str(served.threads.http)
    return {
        **defaults,
        **variables,
        ADDITIONAL_ARGS: " ".join(_arguments(variables.get(ADDITIONAL_ARGS, ""), served)),
    }


def _arguments(variables: str, served: ContainerOptions) -> Iterator[str]:
    """Yield the project's tritonserver options, then those of the file."""
    if WITHOUT_COMPLETION not in variables.split():
        yield WITHOUT_COMPLETION
    if served.keeps_answers and CACHE not in re.split(r"[ =]", variables):
        yield f"{CACHE}=local,size={CACHE_BYTES}"
    if served.threads and not served.generates:
        yield from served.threads.arguments(variables)
    if variables:
        yield variables


def variable_violations(variables: Mapping[str, str], *, model: str | None) -> Iterator[Violation]:
    """Yield variables that cannot be set, and values that would keep the container from starting."""
    for name, value in variables.items():
        problem = (
            _name_violation(name)
            or _size_violation(name, value)
            or _value_violation(name, value, model=model)
        )
        if problem:
            yield UnavailableOptionError.at((name,), *problem)
    everything = container_variables(variables, _largest(model))
    arguments, own = (settings.get(ADDITIONAL_ARGS, "") for settings in (everything, variables))
    if len(arguments.encode()) > LONGEST_BYTES >= len(own.encode()):
        yield InvalidValueError.at(
            (ADDITIONAL_ARGS,),
            f"expected at most {LONGEST_BYTES:,} bytes with the {len(arguments) - len(own)} that every "
            f"container may get, got {len(arguments.encode()):,} (SageMaker's limit)",
            "shorten it, or move settings into the model",
        )
    if len(everything) > MOST_VARIABLES:
        yield InvalidValueError.at(
            (),
            f"expected at most {MOST_VARIABLES} variables, got {len(everything)} with the "
            f"{len(everything) - len(variables)} that every container gets (SageMaker's limit)",
            "move some settings into the model",
        )
    total = sum(len(text.encode()) for pair in everything.items() for text in pair)
    if total > MOST_BYTES:
        yield InvalidValueError.at(
            (),
            f"expected at most {MOST_BYTES:,} bytes of names and values, got {total:,} (SageMaker's limit)",
            "move some settings into the model",
        )


def _largest(model: str | None) -> ContainerOptions:
    """Return the options with the longest variables, for limits on their size."""
    return ContainerOptions(model, keeps_answers=True, threads=Threads(vcpus=MOST_VCPUS))


def unread_variables(variables: Mapping[str, str], release: TritonRelease) -> Iterator[Violation]:
    """Yield variables that the image of a release would silently ignore."""
    for name in variables:
        if release.name < SINCE.get(name, ""):
            yield UnavailableOptionError.at(
                (name,),
                f"the image of Triton {release.name} ignores this variable; supported since {SINCE[name]}",
                "remove it, or choose a newer triton_release",
            )


def _name_violation(name: str) -> tuple[str, str] | None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return (
            f"invalid variable name {name!r}",
            "use letters, digits, and underscores; do not start with a digit",
        )
    if name in RESERVED:
        return f"this variable cannot be set: {RESERVED[name]}", "remove it"
    if name.startswith(_PREFIX) and name not in READ_BY_SERVE:
        names = [variable.removeprefix(_PREFIX) for variable in READ_BY_SERVE]
        suggestion = closest(name.removeprefix(_PREFIX), names)
        return (
            f"unknown variable {name!r}",
            f"did you mean '{_PREFIX}{suggestion}'?"
            if suggestion
            else f"pass Triton's options in {ADDITIONAL_ARGS}",
        )
    return None


def _size_violation(name: str, value: str) -> tuple[str, str] | None:
    for part, text in (("name", name), ("value", value)):
        size = len(text.encode())
        if size > LONGEST_BYTES:
            return (
                f"expected a {part} of at most {LONGEST_BYTES:,} bytes, got {size:,} (SageMaker's limit)",
                "shorten it, or move it into the model",
            )
    return None


def _value_violation(name: str, value: str, *, model: str | None) -> tuple[str, str] | None:
    reading = _CHECKED.get(name)
    if reading is None or not value:  # serve treats an empty variable as unset
        return None
    if not re.fullmatch(reading.pattern, value):
        message = f"expected {reading.description}, got {value!r}; the container would not start"
        return message, f"write {reading.description}"
    if name == INFERENCE_TYPE and model is None:
        return "multi-model endpoints do not support other inference types", "remove it"
    reserved = _SERVES_OWN.search(value) if name == ADDITIONAL_ARGS else None
    if reserved:
        return f"serve already sets {reserved[0]}", f"remove {reserved[0]}"
    return None
