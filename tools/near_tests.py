"""Run the tests that reach the changed modules by their imports: `make test-near`.

Changed is what differs from the branch `main`, or on `main` itself from the last commit. The tests whose path
is like a module's, or that import it in few steps, come first; at most MOST files run.
"""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import grimp

from tritonstack.base.paths import find_project

ROOT = find_project(Path(__file__)).root
PACKAGES = (
    "tritonstack",
    "model_build",
    "stacks",
    "tritonstack_local",
    "tritonstack_sizing",
    "tests",
    "packages.local_cloud.tests",
    "packages.sizing.tests",
)
TESTS = ("tests.", "packages.local_cloud.tests.", "packages.sizing.tests.")
MOST = 40
"""Files of tests: about a minute on two cores."""


@cache
def import_graph() -> grimp.ImportGraph:
    """Return which module imports which."""
    sys.path[:0] = [str(ROOT), str(ROOT / "packages/local_cloud"), str(ROOT / "packages/sizing")]
    return grimp.build_graph(*PACKAGES, cache_dir=None)


def module_of(file: Path) -> str:
    """Return the module of a file, relative to the repository."""
    parts = file.with_suffix("").parts
    if parts[0] == "packages" and parts[2].startswith("tritonstack_"):
        parts = parts[2:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def near_tests(modules: Collection[str]) -> list[Path]:
    """Return the test files that reach one of the modules, closest first."""
    graph = import_graph()
    steps = dict.fromkeys(modules, 0)
    waiting = deque(module for module in modules if module in graph.modules)
    while waiting:
        module = waiting.popleft()
        for importer in graph.find_modules_that_directly_import(module) - steps.keys():
            steps[importer] = steps[module] + 1
            waiting.append(importer)
    tests = {module: count for module, count in steps.items() if _is_test_file(module)}
    return [
        _file_of(test)
        for test in sorted(tests, key=lambda test: (_distance(test, modules) + tests[test], test))
    ]


def _is_test_file(module: str) -> bool:
    return module.startswith(TESTS) and module.rpartition(".")[2].startswith("test_")


def _distance(test: str, modules: Collection[str]) -> int:
    """Return how far the path of a test is from that of the nearest module."""
    words = {word.removeprefix("test_") for word in test.split(".")}
    return -2 * max(len(words & {*module.split(".")}) for module in modules)


def _file_of(module: str) -> Path:
    return Path(*module.split(".")).with_suffix(".py")


def changed_files() -> Iterator[Path]:
    """Yield the changed and the new files of the working tree."""
    branch = _git("rev-parse", "--abbrev-ref", "HEAD")
    base = "HEAD" if branch == ["main"] else "main"
    yield from map(Path, _git("diff", "--name-only", "--diff-filter=d", "--merge-base", base))
    yield from map(Path, _git("ls-files", "--others", "--exclude-standard"))


def _git(*arguments: str) -> list[str]:
    command = ("git", "-C", str(ROOT), *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def main() -> int:
    """Run them."""
    changed = sorted(file for file in changed_files() if file.suffix == ".py")
    files = near_tests([module_of(file) for file in changed])
    if not files:
        print("no test imports what was changed; `make test-fast` runs all fast tests")
        return 0
    if len(files) > MOST:
        print(f"the {MOST} closest of {len(files)} files; `make test-fast` runs all")
    command = [sys.executable, "-m", "pytest", "-m", "not e2e and not soak", "--numprocesses", "auto"]
    # Exit code 5: all tests of these files need servers.
    code = subprocess.run(
        [*command, "--dist", "loadfile", *map(str, files[:MOST])], cwd=ROOT, check=False
    ).returncode
    return 0 if code == 5 else code


if __name__ == "__main__":
    sys.exit(main())
