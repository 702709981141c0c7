"""Read a buildspec (YAML or JSON), and run its commands with the variables of its build.

The variables are CodeBuild's own and the project's, none of the user's. Each command keeps the folder and
variables of the previous one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from botocore.exceptions import ClientError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tritonstack.base.errors import aws_error_code
from tritonstack.base.yaml import load_yaml
from tritonstack_local.codebuild.machines.base import Machine, OnLine
from tritonstack_local.codebuild.records import BuildRecord, PhaseFailedError
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients

PHASES = ("INSTALL", "PRE_BUILD", "BUILD", "POST_BUILD")


def _text(value: Any) -> Any:
    """YAML parses 1 and yes as other types than text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str | int | float) else value or []


Text = Annotated[str, BeforeValidator(_text)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_listed)]


class _Record(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,  # deferred until the first build, to keep the cloud's start fast
        alias_generator=lambda name: name.replace("_", "-"),
    )


class PhaseSpec(_Record):
    """The commands of one phase."""

    run_as: Text | None = None
    on_failure: Literal["ABORT", "CONTINUE"] | None = None
    commands: Texts = ()
    runtime_versions: Mapping[str, Any] | None = None
    """Without effect: they depend on the image."""


class EnvSpec(_Record):
    """The environment variables."""

    variables: Mapping[str, Text] = Field(default_factory=dict)


class Buildspec(_Record):
    """A buildspec. Fields that are not here are rejected."""

    version: Annotated[Literal["0.2"], BeforeValidator(_text)]
    run_as: Text | None = None
    env: EnvSpec = EnvSpec()
    phases: Mapping[Literal["install", "pre_build", "build", "post_build"], PhaseSpec]


def parse_buildspec(text: str) -> Buildspec:
    """Parse a buildspec, or fail the phase as CodeBuild does."""
    try:
        return Buildspec.model_validate(load_yaml(text))
    except yaml.MarkedYAMLError as error:
        line = f" at line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise PhaseFailedError("YAML_FILE_ERROR", f"{error.problem}{line}") from error
    except yaml.YAMLError as error:
        raise PhaseFailedError("YAML_FILE_ERROR", str(error)) from error
    except ValidationError as error:
        raise PhaseFailedError("YAML_FILE_ERROR", "; ".join(_messages(error))) from error


def _messages(failure: ValidationError) -> Iterator[str]:
    for error in failure.errors():
        where = ".".join(str(part) for part in error["loc"])
        yield f"{where}: {error['msg']}"


def service_variables(scope: Scope, build: BuildRecord) -> dict[str, str]:
    """Return CodeBuild's own variables of a build."""
    return {
        "CODEBUILD_BUILD_ARN": build.arn,
        "CODEBUILD_BUILD_ID": build.name,
        "CODEBUILD_BUILD_IMAGE": build.settings["environment"]["image"],
        "CODEBUILD_BUILD_NUMBER": str(build.number),
        "CODEBUILD_INITIATOR": build.initiator,
        "CODEBUILD_KMS_KEY_ID": build.settings.get("encryptionKey", ""),
        "CODEBUILD_PROJECT_ARN": scope.arn("codebuild", f"project/{build.project}"),
        "CODEBUILD_SOURCE_REPO_URL": build.settings["source"].get("location", ""),
        "CODEBUILD_SOURCE_VERSION": build.settings.get("sourceVersion", ""),
        "CODEBUILD_START_TIME": str(int(build.started.timestamp() * 1000)),
    }


def role_credentials(clients: Clients, scope: Scope, build: BuildRecord) -> dict[str, str]:
    """Assume the build's role, and return the variables for its commands."""
    role = build.settings["serviceRole"]
    name = role.rpartition("/")[2]
    try:
        arn = clients.client("iam", scope).get_role(RoleName=name)["Role"]["Arn"]
    except ClientError as error:
        if aws_error_code(error) != "NoSuchEntity":
            raise
        raise PhaseFailedError(
            "ACCESS_DENIED",
            f"CodeBuild is not authorized to perform: sts:AssumeRole on service role. Please verify that: "
            f"1) The provided service role exists, 2) The role name is case-sensitive and matches exactly, "
            f"and 3) The role has the necessary trust policy configured ({role})",
        ) from error
    session = f"AWSCodeBuild-{build.uuid}"
    keys = clients.client("sts", scope).assume_role(RoleArn=arn, RoleSessionName=session)["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
        "AWS_SESSION_TOKEN": keys["SessionToken"],
        "AWS_DEFAULT_REGION": scope.region,
        "AWS_REGION": scope.region,
        "AWS_ENDPOINT_URL": clients.endpoint_url,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def plain_variables(settings: Mapping[str, Any], env: EnvSpec) -> dict[str, str]:
    """Return the buildspec's variables, overridden by project and request."""
    variables = settings["environment"].get("environmentVariables", [])
    return {**env.variables, **{item["name"]: item["value"] for item in variables}}


# As in CodeBuild, every command is a separate script. Its folder and variables are saved in two files.
_SCRIPT = """\
cd "$(cat '{state}/folder')" || exit
. '{state}/variables'
export CODEBUILD_BUILD_SUCCEEDING={succeeding}
set -a
{command}
CODEBUILD_LAST_EXIT=$?
set +a
export -p > '{state}/variables'
pwd > '{state}/folder'
exit $CODEBUILD_LAST_EXIT
"""


class BuildShell:
    """Runs a build's commands on its machine."""

    def __init__(self, machine: Machine, folder: Path, source: Path, *, on_line: OnLine) -> None:
        self._machine = machine
        self._on_line = on_line
        self._state = folder / "tmp" / "shell"
        self._state.mkdir()
        machine.share(self._state, writable=True)
        where = {"HOME": folder / "home", "TMPDIR": folder / "tmp", "CODEBUILD_SRC_DIR": source}
        exports = [f"export {name}='{machine.inside(path)}'" for name, path in where.items()]
        for name, text in (("folder", machine.inside(source)), ("variables", "\n".join(exports))):
            file = self._state / name
            file.write_text(f"{text}\n")
            machine.share(file, writable=True)

    def run(self, command: str, *, user: str | None, succeeding: bool) -> int:
        """Run a command, log its output, and return its exit status."""
        state = self._machine.inside(self._state)
        text = _SCRIPT.format(state=state, succeeding=int(succeeding), command=command)
        # Not as a file: the build can replace the folder by a link to another one of this machine.
        return self._machine.run(["/bin/sh", "-c", text], user=user, on_line=self._on_line)
