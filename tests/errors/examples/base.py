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
from tritonstack.cli.main import _INTERRUPTED, _described, app
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.validation import validate_project

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

    def write(self, file: str, text: str | bytes) -> Path:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def add(self, file: str, *lines: str) -> None:
        """Add lines to a file."""
        self.write(file, "\n".join([(self.root / file).read_text().removesuffix("\n"), *lines, ""]))

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a text in a file."""
        edit(self.root / file, old, new)

    def validate(self) -> None:
        """Check all files as `tritonstack validate` does."""
        if violations := validate_project(ProjectFiles(self.project)):
            raise InvalidFilesError(violations)

    def command(self, *arguments: str) -> None:
        """Run a command of the command line."""
        try:
            if app(args=list(arguments), prog_name="tritonstack", standalone_mode=False) == _INTERRUPTED:
                raise KeyboardInterrupt
        except (Exception, KeyboardInterrupt) as error:
            raise _described(error) from error


@dataclass(frozen=True)
class Example:
    """One way to get an error of a code."""

    code: str
    caption: str
    """What the example does."""
    run: Callable[[Setting], object]


EXAMPLES: dict[str, Example] = {}


def case(code: str, caption: str, run: Callable[[Setting], object]) -> None:
    """Register the example of a code."""
    assert code not in EXAMPLES, code
    EXAMPLES[code] = Example(code, caption, run)


def example(code: str) -> Callable[[Callable[[Setting], object]], None]:
    """Register a function as the example of a code; its docstring is the caption."""
    return lambda run: case(code, run.__doc__ or "", run)


def edited(code: str, caption: str, *edits: tuple[str, str, str]) -> None:
    """Register the example of a code: edits of files of a valid project."""

    def run(shop: Setting) -> None:
        for file, old, new in edits:
            shop.edit(file, old, new)
        shop.validate()

    case(code, caption, run)


def command(code: str, caption: str, *arguments: str) -> None:
    """Register the example of a code: a command in a valid project."""
    case(code, caption, lambda shop: shop.command(*arguments))


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


def show(shown: Example, folder: Path) -> str:
    """Run an example and return the message that a reader sees: the error, or one of its violations."""
    error = produce(shown, folder)
    parts: list[TritonstackError | FileViolation] = [error, *error.violations]
    part = next((part for part in parts if part.code == shown.code), None)
    assert part is not None, f"{shown.code}: got {error.code}: {error.report()}"
    with contextlib.chdir(folder / "shop"):
        text = f"{error.heading}: {part.coded()}" if isinstance(part, FileViolation) else part.report()
    text = text.replace(f"{folder}/home", "/home/me/shop/.tritonstack")
    text = text.replace(f"{folder}/shop/", "").replace(f"{folder}/shop", ".").replace(str(folder), "/home/me")
    return re.sub(r"[ \t]+$", "", text, flags=re.M)
