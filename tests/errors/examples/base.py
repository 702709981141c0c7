"""Examples of errors: each one produces an error of its code for real, in a project of its own."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.projects import edit, write_project
from tritonstack.base.errors import FileViolation, InvalidFilesError, TritonstackError
from tritonstack.base.paths import Project
from tritonstack.project.loading import ProjectFiles
from tritonstack.project.validation import validate_project

DEV = "environments/dev.yaml"
MODEL = "models/minilm/model.yaml"


@dataclass(frozen=True)
class Setting:
    """A small valid project in the working directory, for an example to damage."""

    project: Project
    patch: pytest.MonkeyPatch
    open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def root(self) -> Path:
        return self.project.root

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a text in a file."""
        edit(self.root / file, old, new)

    def write(self, file: str, text: str | bytes) -> Path:
        """Write a file."""
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def dev(self, text: str) -> None:
        """Add a line to `environments/dev.yaml`."""
        self.write(DEV, f"{(self.root / DEV).read_text()}{text}\n")

    def endpoint(self, text: str) -> None:
        """Add a line to the endpoint."""
        self.dev(f"    {text}")

    def model(self, text: str) -> None:
        """Add a line to `models/minilm/model.yaml`."""
        self.write(MODEL, f"{(self.root / MODEL).read_text()}{text}\n")

    def validate(self) -> None:
        """Check all files as `tritonstack validate` does."""
        if violations := validate_project(ProjectFiles(self.project)):
            raise InvalidFilesError(violations)

    def command(self, *arguments: str) -> None:
        """Run a command of the command line."""
        # Loads the whole command line.
        from tritonstack.cli.main import _INTERRUPTED, _described, app

        try:
            if app(args=list(arguments), prog_name="tritonstack", standalone_mode=False) == _INTERRUPTED:
                raise KeyboardInterrupt
        except (Exception, KeyboardInterrupt) as error:
            raise _described(error) from error


@dataclass(frozen=True)
class Example:
    """One way to get an error of a code."""

    code: str
    run: Callable[[Setting], object]

    @property
    def caption(self) -> str:
        """What the example does."""
        return " ".join((self.run.__doc__ or "").split())


@dataclass(frozen=True)
class Shown:
    """What a reader sees of an example."""

    caption: str
    message: str


EXAMPLES: dict[str, Example] = {}


def example(code: str) -> Callable[[Callable[[Setting], object]], Callable[[Setting], object]]:
    """Register the example of a code; the function's docstring is its caption."""

    def register(function: Callable[[Setting], object]) -> Callable[[Setting], object]:
        assert code not in EXAMPLES, code
        assert function.__doc__, code
        EXAMPLES[code] = Example(code, function)
        return function

    return register


@contextlib.contextmanager
def setting(folder: Path) -> Iterator[Setting]:
    """A fresh project below a folder, as the working directory."""
    root = folder / "shop"
    root.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.chdir(root)
        for name in [name for name in os.environ if name.startswith(("AWS_", "TRITONSTACK_"))]:
            patch.delenv(name)
        patch.setenv("TRITONSTACK_HOME", str(folder / "home"))
        yield Setting(write_project(root), patch, stack)


def produce(shown: Example, folder: Path) -> TritonstackError:
    """Run an example and return the error that it raises."""
    silent = io.StringIO()
    with setting(folder) as scene, contextlib.redirect_stderr(silent), contextlib.redirect_stdout(silent):
        try:
            shown.run(scene)
        except TritonstackError as error:
            return error
    raise AssertionError(f"the example of {shown.code} raises no error")


def part(error: TritonstackError, code: str) -> TritonstackError | FileViolation | None:
    """The part of an error that has a code: the error itself or one of its problems."""
    if error.code == code:
        return error
    return next((violation for violation in error.violations if violation.code == code), None)


def show(shown: Example, folder: Path) -> Shown:
    """Run an example and return what a reader sees."""
    error = produce(shown, folder)
    found = part(error, shown.code)
    assert found is not None, f"{shown.code}: got {error.code}: {error.report()}"
    with contextlib.chdir(folder / "shop"):
        is_violation = isinstance(found, FileViolation)
        text = f"{error.heading}: {found.coded()}" if is_violation else found.report()
    text = text.replace(f"{folder}/home", "/home/me/shop/.tritonstack")
    text = text.replace(f"{folder}/shop/", "").replace(f"{folder}/shop", ".").replace(str(folder), "/home/me")
    return Shown(shown.caption, re.sub(r"[ \t]+$", "", text, flags=re.M))
