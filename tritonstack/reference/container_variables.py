"""The environment variables of a container: what the image's `serve` reads, and what would break it.

`serve` is a shell script that puts most variables into Triton's command line as they are; a value that Triton
cannot read ends the container before it is healthy, after an hour of trying as a rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tritonstack.base.documents import Fault, closest
from tritonstack.reference.releases import TritonRelease

MOST_VARIABLES = 100
LONGEST_BYTES = 1024
"""Of a name or of a value."""
MOST_BYTES = 32 * 1024
"""Of all names and values together."""

DEFAULT_MODEL_NAME = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"
LOG_VERBOSE = "SAGEMAKER_TRITON_LOG_VERBOSE"
PING_MODE = "SAGEMAKER_TRITON_PING_MODE"
INFERENCE_TYPE = "SAGEMAKER_TRITON_INFERENCE_TYPE"
ADDITIONAL_ARGS = "SAGEMAKER_TRITON_ADDITIONAL_ARGS"
SHARED_MEMORY = "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE"
GENERATING = ("generate", "generate_stream")
"""Types of inference for models that answer in parts: as one answer, or as they come."""
_PREFIX = "SAGEMAKER_TRITON_"

RESERVED: dict[str, str] = {
    DEFAULT_MODEL_NAME: "it follows from the endpoint's model",
    PING_MODE: "every container gets it; SAGEMAKER_TRITON_OVERRIDE_PING_MODE decides its value",
    "SAGEMAKER_MULTI_MODEL": "it follows from the endpoint's kind",
    "SAGEMAKER_BIND_TO_PORT": "SageMaker chooses the port",
    "SAGEMAKER_SAFE_PORT_RANGE": "SageMaker chooses the ports",
}
"""Variables that are not the file's to set, each with the reason."""


class _Reading(NamedTuple):
    """How `serve` or Triton reads a value."""

    pattern: str
    words: str


_FLAG = _Reading(r"(?i:true|false|1|0)", "true or false")
_COUNT = _Reading(r"[1-9]\d{0,14}", "a whole number from 1")
_PORT = _Reading(r"[1-9]\d{0,4}", "a port")
_LEVEL = _Reading(r"(?i:true|false|\d)", "true, false or a level from 0 to 9")
_FRACTION = _Reading(r"0?\.\d+|1(?:\.0+)?", "a fraction of the GPU's memory such as 0.8")
_PING = _Reading(r"live|ready", "live or ready")
_INFERENCE = _Reading(r"infer|generate|generate_stream", "infer, generate or generate_stream")
_ARGUMENTS = _Reading(r"--(?s:.*)", "options of tritonserver, each beginning with --")

READ_BY_SERVE: dict[str, _Reading] = {
    LOG_VERBOSE: _LEVEL,
    "SAGEMAKER_TRITON_LOG_INFO": _FLAG,
    "SAGEMAKER_TRITON_LOG_WARNING": _FLAG,
    "SAGEMAKER_TRITON_LOG_ERROR": _FLAG,
    "SAGEMAKER_TRITON_THREAD_COUNT": _COUNT,
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

SINCE: dict[str, str] = {INFERENCE_TYPE: "25.04"}
"""Variables that the images of earlier releases do not read."""

_SERVES_OWN = re.compile(
    r"--(allow-sagemaker|allow-http|model-control-mode|model-repository|model-store|sagemaker-port)\b"
)
"""Options that `serve` gives tritonserver itself, and that the front end would not survive twice."""

WITHOUT_COMPLETION = "--disable-auto-complete-config"
"""Configurations are complete when they are packed; asking each Python model to complete its own costs the
start of another process, more than a second, at every load."""
CACHE = "--cache-config"
CACHE_BYTES = 64 << 20
"""What answers are kept in, where a model asks for that and the file does not say how much."""
SHARED_MEMORY_BYTES = 1 << 20
"""What each copy of a Python model begins with, and Triton's own default; it grows as requests need it. With
the 16 MiB that `serve` gives, four copies fill the 64 MiB that containers have as a rule, and nobody can give
SageMaker's more."""


class Served(NamedTuple):
    """What a container has to know of the models that it serves."""

    entry: str | None = None
    """The entry model of an endpoint that serves one; None stands for a multi-model endpoint."""
    keeps_answers: bool = False
    """Whether one of them asks for a response cache."""
    generates: bool = False
    """Whether they answer in parts, as language models do."""


def container_variables(given: Mapping[str, str], served: Served) -> dict[str, str]:
    """What a container is started with: the project's own variables, and those of the file over them."""
    own = {
        # serve's default is true: several lines a request, and CloudWatch takes money for each.
        LOG_VERBOSE: "false",
        # serve assigns this variable without exporting it, so Triton sees it only if it was there before. In
        # mode "ready" one model that failed to load makes SageMaker end a container that serves the others.
        PING_MODE: "ready" if served.entry else "live",
        SHARED_MEMORY: str(SHARED_MEMORY_BYTES),
    }
    if served.entry:
        # The entry of a pipeline. Its parts lie beside it and are loaded because it needs them.
        own[DEFAULT_MODEL_NAME] = served.entry
    if served.generates:
        own[INFERENCE_TYPE] = GENERATING[0]
    return {**own, **given, ADDITIONAL_ARGS: " ".join(_arguments(given.get(ADDITIONAL_ARGS, ""), served))}


def _arguments(given: str, served: Served) -> Iterator[str]:
    """The project's own options of tritonserver before those of the file."""
    if WITHOUT_COMPLETION not in given.split():
        yield WITHOUT_COMPLETION
    if served.keeps_answers and CACHE not in re.split(r"[ =]", given):
        yield f"{CACHE}=local,size={CACHE_BYTES}"
    if given:
        yield given


def variable_faults(given: Mapping[str, str], *, model: str | None) -> Iterator[Fault]:
    """Variables that cannot be set, and values that the container would not start with."""
    for name, value in given.items():
        found = _name_fault(name) or _size_fault(name, value) or _value_fault(name, value, model=model)
        if found:
            yield Fault((name,), *found)
    everything = container_variables(given, Served(model))
    if len(everything) > MOST_VARIABLES:
        yield Fault(
            (),
            f"with the {len(everything) - len(given)} that every container gets these are {len(everything)} "
            f"variables, and SageMaker takes {MOST_VARIABLES}",
            "move some into the model",
        )
    total = sum(len(text.encode()) for pair in everything.items() for text in pair)
    if total > MOST_BYTES:
        yield Fault(
            (),
            f"names and values together take {total:,} bytes, and SageMaker takes {MOST_BYTES:,}",
            "move some into the model",
        )


def unread_variables(given: Mapping[str, str], release: TritonRelease) -> Iterator[Fault]:
    """Variables that the image of a release does not know yet, and would pass over in silence."""
    for name in given:
        if release.name < SINCE.get(name, ""):
            yield Fault(
                (name,),
                f"the image of Triton {release.name} does not read it, those from {SINCE[name]} on do",
                "remove it, or choose a newer triton_release",
            )


def _name_fault(name: str) -> tuple[str, str] | None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return (
            f"{name!r} is no name of a variable",
            "use letters, digits and underscores, and no digit at the beginning",
        )
    if name in RESERVED:
        return f"this variable is not the file's to set: {RESERVED[name]}", "remove it"
    if name.startswith(_PREFIX) and name not in READ_BY_SERVE:
        known = [read.removeprefix(_PREFIX) for read in READ_BY_SERVE]
        suggestion = closest(name.removeprefix(_PREFIX), known)
        return (
            "serve reads no such variable",
            f"did you mean '{_PREFIX}{suggestion}'?"
            if suggestion
            else f"options of Triton go into {ADDITIONAL_ARGS}",
        )
    return None


def _size_fault(name: str, value: str) -> tuple[str, str] | None:
    for what, text in (("name", name), ("value", value)):
        size = len(text.encode())
        if size > LONGEST_BYTES:
            return (
                f"the {what} takes {size:,} bytes, and SageMaker takes {LONGEST_BYTES:,}",
                "shorten it, or move it into the model",
            )
    return None


def _value_fault(name: str, value: str, *, model: str | None) -> tuple[str, str] | None:
    reading = READ_BY_SERVE.get(name)
    if reading is None or not value:  # serve takes an empty variable for one that is not set
        return None
    if not re.fullmatch(reading.pattern, value):
        return f"{value!r} is not {reading.words}, so the container would not start", f"write {reading.words}"
    if name == INFERENCE_TYPE and model is None:
        return "multi-model endpoints do not know other types of inference", "remove it"
    own = _SERVES_OWN.search(value) if name == ADDITIONAL_ARGS else None
    if own:
        return f"serve gives tritonserver {own[0]} itself", f"remove {own[0]}"
    return None
