"""A project in git with the environment `dev`, whose lock changes from commit to commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.files.records.test_locks import BUILT
from tests.git import Repository
from tests.manifests import manifest
from tests.projects import MODEL, edit, write_project
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.lock_writing import add_to_lock
from tritonstack.operate.destroy.retained import RunningEndpoint
from tritonstack.operate.locks.versions import LockHistory, lock_history


class LockedProject:
    """Its artifacts have digests of one repeated number: 1111…, 2222…, and so on."""

    def __init__(self, root: Path, *, keep_locks: int | None = None) -> None:
        root.mkdir(exist_ok=True)
        self.project = write_project(root)
        if keep_locks is not None:
            self.edit("endpoints:", f"keep_locks: {keep_locks}\nendpoints:")
        self.repository = Repository(root)
        self.lock_file = self.project.lock_file("dev")

    def edit(self, old: str, new: str) -> None:
        edit(self.project.environment_file("dev"), old, new)

    def build(self, number: str, *, model: str = "minilm", environment: str = "dev", **changes: Any) -> None:
        """Lock an artifact without a commit."""
        artifact = manifest(model, digest=number * 32, spec_hash="77" * 32, **changes)
        add_to_lock(self.project.lock_file(environment), [artifact], built=BUILT)

    def lock(self, *numbers: str, **changes: Any) -> str:
        """Lock artifacts, each in a commit; return the last one."""
        for number in numbers:
            self.build(number, **changes)
            commit = self.repository.commit(number)
        return commit

    def break_lock(self) -> None:
        """Commit a lock that this version cannot read; leave its contents of before."""
        good = self.lock_file.read_text()
        self.lock_file.write_text(good.replace("spec_hash:", "spec_hush:"))
        self.repository.commit("broken")
        self.lock_file.write_text(good)

    def add_model(self, name: str) -> None:
        file = self.project.model_file(name)
        file.parent.mkdir()
        file.write_text(MODEL.replace("name: minilm", f"name: {name}"))

    def add_prod(self) -> None:
        text = self.project.environment_file("dev").read_text()
        self.project.environment_file("prod").write_text(text.replace("name: dev", "name: prod"))

    @property
    def workspace(self) -> Workspace:
        return load_workspace(self.project, "dev")

    @property
    def history(self) -> LockHistory:
        return lock_history(self.project, "dev")


def running(*urls: str, images: tuple[str, ...] = (), missing: str | None = None) -> RunningEndpoint:
    """Return an endpoint that runs these model data and images."""
    none = frozenset[str]()
    return RunningEndpoint(
        "tritonstack-dev-search", none, none, frozenset(urls), missing=missing, images=frozenset(images)
    )
