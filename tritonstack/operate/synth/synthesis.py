"""Synthesize the checked-out files into templates."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import tritonstack
from tritonstack.base.files import read_json, staging_folder
from tritonstack.base.paths import MARKER, Project, in_source_tree, shipped
from tritonstack.base.revisions import BUILD_CODE
from tritonstack.base.source_files import UnsafeFileError, find_file, list_files
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.sources.model_hashes import CachedDigests, project_digests
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.revisions import SYNTH_CODE, files_of_environment
from tritonstack.operate.shared.session import Session
from tritonstack.operate.synth.assembly import Assembly
from tritonstack.operate.synth.cdk import CdkCli, find_cdk

# An assembly is used again only if each of these is the same: the files of the project and of the installed
# code (uncommitted ones included), the lock, the CDK context, and the versions of Python, its packages, Node,
# and the CDK CLI. An app other than `tritonstack-app` may read other inputs, so its assemblies are not kept.


_FORMAT = "1"
_MOST_KEPT = 24
_MOST_BYTES = 64 * 1024**2
"""An assembly with larger assets, such as model files for builds in the account, is not kept."""
_SUMS = "sha256.json"
_STAGING = ".new-"
_APP = "tritonstack-app"
_PACKAGES = Path(tritonstack.__file__).resolve().parents[1]
_SETTINGS = ("CDK_", "JSII_", "PYTHONPATH")
_SETTINGS_OF_THIS_PROJECT = ("TRITONSTACK_HOME", "TRITONSTACK_CLOUD")


class AssemblyCache:
    """The kept assemblies of a project, in `.tritonstack/cache/assemblies`."""

    def __init__(self, project: Project) -> None:
        self._folder = project.cache_dir / "assemblies"

    def find(self, key: str, target: Path) -> Assembly | None:
        """Copy a kept assembly to a new folder. A damaged one is removed and not used."""
        cached = self._folder / key
        try:
            sums = read_json(cached / _SUMS)
            shutil.copytree(cached, target, dirs_exist_ok=True)
            (target / _SUMS).unlink()
            whole = _digests(target) == sums
        except (OSError, ValueError):
            whole = False
        if whole:
            with suppress(OSError):
                os.utime(cached)
            return Assembly(target)
        shutil.rmtree(cached, ignore_errors=True)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        return None

    def keep(self, key: str, assembly: Assembly) -> None:
        """Keep an assembly. A cache that cannot be written is no error."""
        if not _is_keepable(assembly.folder):
            return
        with suppress(OSError), staging_folder(self._folder, _STAGING) as copy:
            self._remove_old()
            shutil.copytree(assembly.folder, copy, dirs_exist_ok=True)
            (copy / _SUMS).write_text(json.dumps(_digests(copy)))
            copy.rename(self._folder / key)

    def _remove_old(self) -> None:
        """Keep the assemblies used last."""
        complete = [folder for folder in self._folder.iterdir() if not folder.name.startswith(_STAGING)]
        complete.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
        for folder in complete[_MOST_KEPT - 1 :]:
            shutil.rmtree(folder, ignore_errors=True)


def synthesis_key(workspace: Workspace, cdk: CdkCli, stacks: Sequence[str] = ()) -> str | None:
    """Return the digest of everything that the synthesis of some stacks reads; None if it is unknown."""
    project = workspace.project
    app, tools = _app(project), _tools(cdk)
    if app is None or tools is None:
        return None
    parts = [_FORMAT, sys.version, app, *tools, *stacks, *_packages(), *_cdk_inputs(project, cdk)]
    try:
        with project_digests(project, "synthesis") as digests:
            parts += _file_digests(workspace, digests)
    except (OSError, UnsafeFileError):
        return None
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _app(project: Project) -> str | None:
    """Return the app of cdk.json if it runs tritonstack's stacks alone."""
    try:
        app = str(read_json(project.root / MARKER).get("app"))
    except (OSError, ValueError, AttributeError):
        return None
    if app == _APP:
        return app
    entry = project.root / app.removeprefix("python3 ")
    runs_ours = in_source_tree() and entry.is_file() and entry.read_bytes() == shipped("app.py").read_bytes()
    return app if runs_ours else None


def _packages() -> Iterator[str]:
    """Yield the distributions that can be imported, with their versions."""
    for folder in sorted({folder for folder in sys.path if os.path.isdir(folder)}):
        yield from sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info")))


def _tools(cdk: CdkCli) -> list[str] | None:
    """Return what identifies the CDK CLI and Node, which runs its library; None if one is not found."""
    package = cdk.executable.resolve().parents[1] / "package.json"
    variables = {**os.environ, **cdk.variables}
    node = shutil.which("node", path=variables.get("PATH"))
    if node is None or not package.is_file():
        return None
    state = os.stat(node)
    return [package.read_text(), f"{os.path.realpath(node)} {state.st_size} {state.st_mtime_ns}"]


def _cdk_inputs(project: Project, cdk: CdkCli) -> Iterator[str]:
    """Yield the context, the files that the CDK CLI reads, and its variables."""
    yield json.dumps(dict(cdk.context), sort_keys=True)
    for file in (project.root / MARKER, project.root / "cdk.context.json", Path.home() / ".cdk.json"):
        yield hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "none"
    for name, value in sorted({**os.environ, **cdk.variables}.items()):
        is_setting = name.startswith("TRITONSTACK_") and name not in _SETTINGS_OF_THIS_PROJECT
        if name.startswith(_SETTINGS) or is_setting:
            yield f"{name}={value}"


def _file_digests(workspace: Workspace, digests: CachedDigests) -> Iterator[str]:
    """Yield name and digest of each file that synthesis may read or package as an asset."""
    project, matters = workspace.project, files_of_environment(workspace)
    folders = {f"project/{folder.relative_to(project.root)}": folder for folder in matters.folders}
    folders |= {"models": project.models_dir, "containers": project.containers_dir}
    folders |= {"shipped": shipped("containers")}
    folders |= {f"code/{name}": _PACKAGES / name for name in {*BUILD_CODE, *SYNTH_CODE}}
    for name, folder in sorted(folders.items()):
        for file in list_files(folder).values():
            yield f"{name}/{file.name} {digests.sha256(file)}"
    for path in sorted({*matters.files, Path(tritonstack.__file__)}):
        executable = find_file(path.parent, path.name) if path.parent.is_dir() else None
        name = os.path.relpath(path, project.root) if path.is_relative_to(project.root) else path.name
        yield f"{name} {digests.sha256(executable) if executable else 'none'}"


def _is_keepable(folder: Path) -> bool:
    """Check that an assembly is small, and complete without lookups in an account."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    if sum(file.stat().st_size for file in files) > _MOST_BYTES:
        return False
    return not read_json(folder / "manifest.json").get("missing")


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file != folder / _SUMS)
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def cdk_of(workspace: Workspace, cloud: Cloud) -> CdkCli:
    """Return the CDK command line for an environment."""
    return find_cdk(
        workspace.project.root,
        environment_name=workspace.spec.name,
        context=workspace.context,
        variables=cloud.process_environment(),
    )


@contextmanager
def synthesized(
    session: Session, workspace: Workspace, cdk: CdkCli, stack: str | None = None
) -> Iterator[Assembly]:
    """Synthesize the stacks of an environment into a temporary folder, or copy them if nothing changed.

    With `stack`, errors of other stacks, such as those whose artifacts are not built, do not matter.
    """
    selected = [stack] if stack else []
    cache, key = AssemblyCache(workspace.project), synthesis_key(workspace, cdk, selected)
    with tempfile.TemporaryDirectory(prefix="tritonstack-") as name:
        folder = Path(name)
        with session.reporter.step(f"synthesizing {stack or 'the stacks'}") as step:
            assembly = cache.find(key, folder) if key else None
            step.detail = "unchanged since the last time" if assembly else ""
            if assembly is None:
                cdk.run("synth", *selected, "--quiet", "--output", name, on_line=step.update)
                assembly = Assembly(folder)
                if key and synthesis_key(workspace, cdk, selected) == key:
                    cache.keep(key, assembly)
        yield assembly
