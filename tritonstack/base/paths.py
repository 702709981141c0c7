"""Folders of a project: models, environments, locks, and local state."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tritonstack.base.embedded_accounts import EMBEDDED_ACCOUNT
from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.errors import UsageError

MARKER = "cdk.json"
TEMPLATE_SUFFIX = ".template.yaml"
LOCK_SUFFIX = ".lock.yaml"


class NoProjectError(UsageError):
    """Neither the working directory nor a parent folder is a tritonstack project. Change to the project, use
    `--project`, or create one with `tritonstack init DIR`.
    """

    code = "TS902"
    title = "No project found"


@dataclass(frozen=True)
class Project:
    """A project folder: this repository, or another with the same layout."""

    root: Path

    @property
    def models_dir(self) -> Path:
        """One folder per model, each with its model.yaml."""
        return self.root / "models"

    @property
    def environments_dir(self) -> Path:
        """`<env>.yaml` and its lock, `<env>.lock.yaml`."""
        return self.root / "environments"

    @property
    def delivery_file(self) -> Path:
        """delivery.yaml."""
        return self.root / "delivery.yaml"

    @property
    def containers_dir(self) -> Path:
        """The project's own images, one folder each. Most projects use the shipped ones and have none."""
        return self.root / "containers"

    def container(self, name: str) -> Path:
        """Return a folder or file of containers/: the project's own if it exists, else the shipped one."""
        custom = self.containers_dir / name
        return custom if custom.exists() else shipped("containers") / name

    @property
    def containers(self) -> dict[str, Path]:
        """Everything in containers/ by name: the project's own entries replace shipped ones."""
        folders = [folder for folder in (shipped("containers"), self.containers_dir) if folder.is_dir()]
        return {entry.name: entry for folder in folders for entry in sorted(folder.iterdir())}

    @property
    def state_dir(self) -> Path:
        """Generated files that git ignores: built artifacts, the embedded server, the local cloud."""
        override = os.environ.get("TRITONSTACK_HOME")
        if not override:
            return self.own_state_dir
        try:
            return Path(override).expanduser().resolve()
        except (OSError, RuntimeError) as error:  # an unknown user, or a circle of links
            raise CommandLineError(
                f"TRITONSTACK_HOME: {error}", remedy="set it to the path of a folder"
            ) from error

    @property
    def own_state_dir(self) -> Path:
        """Generated files that TRITONSTACK_HOME does not move, since projects may share that folder."""
        return self.root / ".tritonstack"

    @property
    def artifacts_dir(self) -> Path:
        """Artifacts built on this machine, laid out like the artifact bucket."""
        return self.state_dir / "artifacts"

    @property
    def cache_dir(self) -> Path:
        """Downloads of builds, digests of large files, and synthesized stacks. Safe to delete."""
        return self.state_dir / "cache"

    @property
    def server_dir(self) -> Path:
        """The embedded Triton server that `tritonstack setup` installs."""
        return self.state_dir / "server"

    @property
    def cdk_dir(self) -> Path:
        """The CDK CLI that `tritonstack setup` installs."""
        return self.state_dir / "cdk"

    @property
    def clouds_dir(self) -> Path:
        """State of all local clouds of this project, one folder each."""
        return self.state_dir / "clouds"

    def cloud_dir(self, account: str = EMBEDDED_ACCOUNT) -> Path:
        """Return the state folder of an account's local cloud; TRITONSTACK_CLOUD selects another cloud."""
        name = os.environ.get("TRITONSTACK_CLOUD", "default")
        return self.clouds_dir / (name if account == EMBEDDED_ACCOUNT else f"{name}-{account}")

    def model_file(self, name: str) -> Path:
        """Return the model.yaml of a model."""
        return self.models_dir / name / "model.yaml"

    def environment_file(self, name: str) -> Path:
        """Return the file of an environment."""
        return self.environments_dir / f"{name}.yaml"

    def template_file(self, name: str) -> Path:
        """Return the file of a template."""
        return self.environments_dir / f"{name}{TEMPLATE_SUFFIX}"

    def lock_file(self, environment: str) -> Path:
        """Return the lock file of an environment."""
        return self.environments_dir / f"{environment}{LOCK_SUFFIX}"


_PACKAGE = Path(__file__).resolve().parents[1]


def in_source_tree() -> bool:
    """Return whether this code runs from the source tree, where `make` installs what is missing."""
    return not (_PACKAGE / "shipped").is_dir()


def is_source_tree(project: Project) -> bool:
    """Return whether a project is tritonstack's own repository, whose `make` installs the tool."""
    return in_source_tree() and project.root == _PACKAGE.parent


def shipped(name: str) -> Path:
    """Return a file or folder that the wheel ships, or its original at the top level of the source tree."""
    return (_PACKAGE.parent if in_source_tree() else _PACKAGE / "shipped") / name


def find_project(start: Path | None = None) -> Project:
    """Find the project that contains `start` (default: the working directory)."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / MARKER).is_file() and (folder / "environments").is_dir():
            return Project(folder)
    raise NoProjectError(
        f"no tritonstack project at or above {here}",
        remedy=f"change to the folder that has {MARKER} and environments/, use --project, or create one "
        "with `tritonstack init DIR`",
    )
