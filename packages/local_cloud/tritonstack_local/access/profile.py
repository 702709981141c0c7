"""Write the AWS profile file of a running cloud, for tools that read files instead of variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tritonstack_local.signatures.keys import write_private

_SETTINGS = {
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "region": "AWS_REGION",
    "endpoint_url": "AWS_ENDPOINT_URL",
}


def profile_path(folder: Path) -> Path:
    """Return the profile file of a cloud's folder."""
    return folder / "aws-profile"


def write_profile(folder: Path, variables: Mapping[str, str]) -> None:
    """Write the default profile; the file is both AWS config file and credentials file."""
    lines = [f"{setting} = {variables[name]}" for setting, name in _SETTINGS.items()]
    write_private(profile_path(folder), "\n".join(["[default]", *lines, ""]))


def remove_profile(folder: Path) -> None:
    """Remove the file: another program may use the port after the cloud ends."""
    profile_path(folder).unlink(missing_ok=True)
