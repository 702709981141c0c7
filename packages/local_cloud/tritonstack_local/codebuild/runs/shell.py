"""The environment variables of a build, and the shell that runs its commands.

The variables are CodeBuild's own and the project's, none of the user's. Each command keeps the folder and
variables of the previous one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code, aws_error_message
from tritonstack.base.files import parse_json
from tritonstack_local.codebuild.errors import PhaseFailedError
from tritonstack_local.codebuild.machines.base import Machine, OnLine
from tritonstack_local.codebuild.records import BuildRecord
from tritonstack_local.codebuild.runs.buildspec import Buildspec, EnvSpec
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients

Hide = Callable[[str], None]


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
    found = clients.client("sts", scope).assume_role(RoleArn=arn, RoleSessionName=session)["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": found["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": found["SecretAccessKey"],
        "AWS_SESSION_TOKEN": found["SessionToken"],
        "AWS_DEFAULT_REGION": scope.region,
        "AWS_REGION": scope.region,
        "AWS_ENDPOINT_URL": clients.endpoint_url,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def given_variables(
    clients: Clients, scope: Scope, settings: Mapping[str, Any], env: EnvSpec, *, hide: Hide
) -> dict[str, str]:
    """Return the buildspec's variables, overridden by project and request; secrets are fetched."""
    wanted = [
        *(("PLAINTEXT", name, value) for name, value in env.variables.items()),
        *(("PARAMETER_STORE", name, value) for name, value in env.parameter_store.items()),
        *(("SECRETS_MANAGER", name, value) for name, value in env.secrets_manager.items()),
        *(
            (item.get("type", "PLAINTEXT"), item["name"], item["value"])
            for item in settings["environment"].get("environmentVariables", [])
        ),
    ]
    last = {name: (kind, value) for kind, name, value in wanted}
    return {name: _value(clients, scope, kind, value, hide) for name, (kind, value) in last.items()}


def _value(clients: Clients, scope: Scope, kind: str, value: str, hide: Hide) -> str:
    if kind == "PLAINTEXT":
        return value
    read = _parameter if kind == "PARAMETER_STORE" else _secret
    found = read(clients, scope, value)
    hide(found)
    return found


def _parameter(clients: Clients, scope: Scope, name: str) -> str:
    ssm = clients.client("ssm", scope)
    try:
        return str(ssm.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"])
    except ClientError as error:
        code = aws_error_code(error)
        text = "parameter does not exist" if code == "ParameterNotFound" else code
        raise PhaseFailedError("Decrypted Variables Error", f"{text}: {name}") from error


def _secret(clients: Clients, scope: Scope, reference: str) -> str:
    """Read `secret-id:json-key:version-stage:version-id`; the secret-id can be an ARN with six colons."""
    parts = reference.split(":")
    length = 7 if reference.startswith("arn:") else 1
    secret = ":".join(parts[:length])
    key, stage, version = [*parts[length:], "", "", ""][:3]
    options = {name: value for name, value in (("VersionStage", stage), ("VersionId", version)) if value}
    try:
        found = clients.client("secretsmanager", scope).get_secret_value(SecretId=secret, **options)
        text = str(found["SecretString"])
        return text if not key else str(parse_json(text)[key])
    except ClientError as error:
        reason = f"{aws_error_code(error)}: {aws_error_message(error)}"
        raise PhaseFailedError("Secrets Manager Error", reason) from error
    except (KeyError, TypeError, ValueError) as error:
        raise PhaseFailedError(
            "Secrets Manager Error", f"the secret {secret} has no text {key}".rstrip()
        ) from error


# As in CodeBuild, every command is a separate script. Its folder and variables are saved in two files.
_SCRIPT = """\
cd "$(cat '{kept}/folder')" || exit
. '{kept}/variables'
export CODEBUILD_BUILD_SUCCEEDING={succeeding}
set -a
{command}
CODEBUILD_LAST_EXIT=$?
set +a
export -p > '{kept}/variables'
pwd > '{kept}/folder'
exit $CODEBUILD_LAST_EXIT
"""
_SHELLS = {"sh": "/bin/sh", "bash": "/bin/bash"}


class BuildShell:
    """Runs a build's commands on its machine."""

    def __init__(
        self, machine: Machine, folder: Path, spec: Buildspec, source: Path, *, on_line: OnLine
    ) -> None:
        self._machine = machine
        self._on_line = on_line
        self._shell = _SHELLS.get(spec.env.shell, spec.env.shell)
        self._kept = folder / "tmp" / "shell"
        self._kept.mkdir()
        machine.share(self._kept, writable=True)
        where = {
            "HOME": folder / "home",
            "TMPDIR": folder / "tmp",
            "CODEBUILD_SRC_DIR": source,
            **{
                f"CODEBUILD_SRC_DIR_{other.name.removeprefix('sec_')}": other
                for other in source.parent.glob("sec_*")
            },
        }
        exports = [f"export {name}='{machine.inside(path)}'" for name, path in where.items()]
        for name, text in (("folder", machine.inside(source)), ("variables", "\n".join(exports))):
            kept = self._kept / name
            kept.write_text(f"{text}\n")
            machine.share(kept, writable=True)

    def run(self, command: str, *, user: str | None, succeeding: bool) -> int:
        """Run a command, log its output, and return its exit status."""
        return self._run(command, user=user, succeeding=succeeding, on_line=self._on_line)

    def value(self, text: str) -> str:
        """Expand variables and commands in a text, as in double quotes."""
        lines: list[str] = []
        self._run(f'printf "%s" "{text}"', user=None, succeeding=True, on_line=lines.append)
        return "\n".join(lines)

    def _run(self, command: str, *, user: str | None, succeeding: bool, on_line: OnLine) -> int:
        kept = self._machine.inside(self._kept)
        text = _SCRIPT.format(kept=kept, succeeding=int(succeeding), command=command)
        # Not as a file: the build can replace the folder by a link to another one of this machine.
        return self._machine.run([self._shell, "-c", text], user=user, on_line=on_line)
