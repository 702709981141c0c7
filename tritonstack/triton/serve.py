"""Compute what the SageMaker Triton image's `serve` would run, from the environment and the model folder.

`serve` is a shell script; its handling of variables is reproduced: an empty variable counts as unset, and
every value is split at blanks in the command line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tritonstack.triton.errors import ServeRejectedError

# In multi-model mode, each load names its own repository; the initial one must exist and is empty.
MULTI_MODEL_REPOSITORY = Path("/tmp/sagemaker")  # noqa: S108 - the very folder that `serve` makes
DEFAULT_PORT = 8080

MULTI_MODEL = "SAGEMAKER_MULTI_MODEL"
BIND_TO_PORT = "SAGEMAKER_BIND_TO_PORT"
DEFAULT_MODEL_NAME = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"
INFERENCE_TYPE = "SAGEMAKER_TRITON_INFERENCE_TYPE"
PING_MODE = "SAGEMAKER_TRITON_PING_MODE"
OVERRIDE_PING_MODE = "SAGEMAKER_TRITON_OVERRIDE_PING_MODE"
MODEL_LOAD_GPU_LIMIT = "SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT"
ADDITIONAL_ARGS = "SAGEMAKER_TRITON_ADDITIONAL_ARGS"

INFERENCE_TYPES = ("infer", "generate", "generate_stream")
GENERATING = INFERENCE_TYPES[1:]
INFERENCE_TYPE_SINCE = (25, 3)


class Flag(NamedTuple):
    """A variable that becomes a tritonserver flag."""

    variable: str
    flag: str
    """The text before the value."""
    default: str | None = None
    """The value of an unset variable; None omits the flag."""


# In the order of serve's command line.
FLAGS = (
    # The value is passed unchanged, so DISABLE_MODEL_NAMESPACING=true enables namespacing.
    Flag("SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING", "--model-namespacing=", "true"),
    Flag(BIND_TO_PORT, "--sagemaker-port="),
    Flag("SAGEMAKER_SAFE_PORT_RANGE", "--sagemaker-safe-port-range="),
    Flag("SAGEMAKER_TRITON_ALLOW_GRPC", "--allow-grpc=", "false"),
    Flag("SAGEMAKER_TRITON_ALLOW_METRICS", "--allow-metrics=", "false"),
    Flag("SAGEMAKER_TRITON_METRICS_PORT", "--metrics-port="),
    Flag("SAGEMAKER_TRITON_GRPC_PORT", "--grpc-port="),
    Flag("SAGEMAKER_TRITON_BUFFER_MANAGER_THREAD_COUNT", "--buffer-manager-thread-count="),
    Flag("SAGEMAKER_TRITON_THREAD_COUNT", "--sagemaker-thread-count="),
    Flag("SAGEMAKER_TRITON_LOG_VERBOSE", "--log-verbose=", "true"),
    Flag("SAGEMAKER_TRITON_LOG_INFO", "--log-info="),
    Flag("SAGEMAKER_TRITON_LOG_WARNING", "--log-warning="),
    Flag("SAGEMAKER_TRITON_LOG_ERROR", "--log-error="),
    Flag(
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE",
        "--backend-config=python,shm-default-byte-size=",
        "16777216",
    ),
    Flag(
        "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE",
        "--backend-config=python,shm-growth-byte-size=",
        "1048576",
    ),
    Flag("SAGEMAKER_TRITON_TENSORFLOW_VERSION", "--backend-config=tensorflow,version="),
)


@dataclass(frozen=True, kw_only=True)
class ServeCommand:
    """The server's command line and environment."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    """The server process's environment, which differs from the script's."""
    multi_model: bool
    port: int
    notices: tuple[str, ...]
    """Messages that `serve` prints before it starts the server."""
    folders_made: tuple[Path, ...]
    """Folders that `serve` creates first."""


def serve_command(
    *,
    environment: Mapping[str, str],
    model_root: Path,
    multi_model_root: Path = MULTI_MODEL_REPOSITORY,
    served_at: Path | None = None,
    gpu_count: int = 0,
    release: str | None = None,
) -> ServeCommand:
    """Return what `serve` runs in a container with this environment whose model is in `model_root`.

    `served_at` is the server's path of `model_root` if it differs. `multi_model_root` is the empty repository
    of multi-model mode. `release` is the image's (such as "24.10"), which determines the checks of `serve`.
    Raises ServeRejectedError with serve's own message.
    """
    multi_model = environment.get(MULTI_MODEL) == "true"
    notices: list[str] = []
    variables = dict(environment)
    ping_mode = environment.get(OVERRIDE_PING_MODE) or ("live" if multi_model else "ready")
    if PING_MODE in environment:
        # `serve` assigns this variable without exporting it: the server sees the assignment only if the
        # container's environment already had the variable. Otherwise it uses "ready".
        variables[PING_MODE] = ping_mode
    if multi_model:
        notices.append(f'Triton is running in SageMaker MME mode. Using Triton ping mode: "{ping_mode}"')
    elif (model_root / "config.pbtxt").is_file():
        raise ServeRejectedError(
            "ERROR: Incorrect directory structure.\n"
            "       Model directory needs to contain the top level folder",
            remedy="put config.pbtxt into a folder named after the model: <model>/config.pbtxt",
        )
    _check_inference_type(environment, release)
    loaded: list[str] = []
    if not multi_model:
        variables[DEFAULT_MODEL_NAME] = _default_model(environment, model_root, notices)
        loaded = f"--load-model={variables[DEFAULT_MODEL_NAME]}".split()
    served = str(multi_model_root) if multi_model else f"{served_at or model_root}/"
    return ServeCommand(
        argv=(
            "tritonserver",
            "--allow-sagemaker=true",
            "--allow-http=false",
            "--model-control-mode=explicit",
            f"--model-repository={served}",
            *_flags(environment, gpu_count),
            *loaded,
        ),
        environment=variables,
        multi_model=multi_model,
        port=_port(environment),
        notices=tuple(notices),
        folders_made=(multi_model_root,) if multi_model else (),
    )


def generate_by_http(command: ServeCommand, *, release: str) -> tuple[ServeCommand, Mapping[str, str]]:
    """Return the command with Triton's KServe front end for inference types that a release lacks.

    From 25.03 on, SageMaker's front end passes /invocations to the handler of generate requests if
    SAGEMAKER_TRITON_INFERENCE_TYPE says so. The KServe front end of older releases has the same handler. It
    listens in place of SageMaker's, and the returned routes have its paths for those of SageMaker's contract.
    """
    kind = command.environment.get(INFERENCE_TYPE)
    if command.multi_model or kind not in GENERATING or _knows_inference_types(release):
        return command, {}
    replaced = {
        "--allow-sagemaker=true": "--allow-sagemaker=false",
        "--allow-http=false": "--allow-http=true",
    }
    argv = [replaced.get(argument, argument) for argument in command.argv]
    argv += ["--http-address=127.0.0.1", f"--http-port={command.port}"]
    health = "live" if command.environment.get(PING_MODE) == "live" else "ready"
    routes = {
        "/ping": f"/v2/health/{health}",
        "/invocations": f"/v2/models/{command.environment[DEFAULT_MODEL_NAME]}/{kind}",
    }
    return replace(command, argv=tuple(argv)), routes


def _flags(environment: Mapping[str, str], gpu_count: int) -> Iterator[str]:
    for entry in FLAGS:
        value = environment.get(entry.variable) or entry.default
        if value is not None:
            yield from f"{entry.flag}{value}".split()
    limit = environment.get(MODEL_LOAD_GPU_LIMIT)
    if limit:
        for gpu in range(gpu_count):
            yield from f"--model-load-gpu-limit {gpu}:{limit}".split()
    yield from environment.get(ADDITIONAL_ARGS, "").split()


def _check_inference_type(environment: Mapping[str, str], release: str | None) -> None:
    """Check the variable, which releases before 25.03 do not know."""
    value = environment.get(INFERENCE_TYPE)
    if value and _knows_inference_types(release) and value not in INFERENCE_TYPES:
        raise ServeRejectedError(
            f"ERROR: Invalid {INFERENCE_TYPE} '{value}'\n       Must be one of: {', '.join(INFERENCE_TYPES)}",
            remedy=f"correct or remove the variable {INFERENCE_TYPE}",
        )


def _knows_inference_types(release: str | None) -> bool:
    return release is None or tuple(map(int, release.split("."))) >= INFERENCE_TYPE_SINCE


def _default_model(environment: Mapping[str, str], model_root: Path, notices: list[str]) -> str:
    name = environment.get(DEFAULT_MODEL_NAME)
    if name:
        if not (model_root / name.lstrip("/")).is_dir():
            raise ServeRejectedError(
                f"ERROR: Directory with provided {DEFAULT_MODEL_NAME} {name} does not exist",
                remedy=f"set {DEFAULT_MODEL_NAME} to the name of a folder in {model_root}",
            )
        return name
    folders = _model_folders(model_root)
    if not folders:
        raise ServeRejectedError(
            "ERROR: No model found in model repository",
            remedy="pack the model's folder (with config.pbtxt and version folders) at the top level of the "
            "archive",
        )
    if len(folders) > 1:
        raise ServeRejectedError(
            "ERROR: More than 1 model directory found in model repository.\n"
            f"       Either provide a single directory or set {DEFAULT_MODEL_NAME} "
            "to run the ensemble backend.\n"
            f"       Directories found in model repository: {' '.join(folders)}",
            remedy=f"set {DEFAULT_MODEL_NAME} to one of the folders",
        )
    notices.append(f"WARNING: No {DEFAULT_MODEL_NAME} provided.")
    notices.append(f"         Starting with the only existing model directory {folders[0]}")
    return folders[0]


def _model_folders(model_root: Path) -> list[str]:
    """Return first-level folders without links, as `find -type d` lists them; the shell splits at blanks."""
    if not model_root.is_dir():
        return []
    with os.scandir(model_root) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return " ".join(names).split()


def _port(environment: Mapping[str, str]) -> int:
    """Return the port of the SageMaker front end; reject a non-number as tritonserver would."""
    text = environment.get(BIND_TO_PORT) or str(DEFAULT_PORT)
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise ServeRejectedError(
            f"ERROR: {BIND_TO_PORT} is {text!r}, which is not a port number",
            remedy=f"set {BIND_TO_PORT} to a number from 1 to 65535, or remove it",
        )
    return int(text)
