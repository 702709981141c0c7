"""Environments packed in the background: same bytes, no second packing, and no process left behind."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from model_build.environments import packing
from model_build.environments.packing import EarlyPacking, Packages, build_environment
from model_build.recipes.hugging_face import likely_packages
from tests.model_build.environments.wheels import write_wheel
from tritonstack.base.files import sha256_of
from tritonstack.facts.targets import parse_target
from tritonstack.files.model.recipes import TextEmbeddingRecipe

pytestmark = pytest.mark.e2e

PLAIN = Packages(("plain==1.0",), dependencies=True)
ENDS_WITHIN_S = 60.0
ORPHAN = """
import sys, time
from pathlib import Path
from model_build.environments.packing import EarlyPacking, Packages
packing = EarlyPacking(Path(sys.argv[1]) / "cache")
packing.start(Packages(("plain==1.0",), dependencies=True))
time.sleep(600)
"""


@pytest.fixture
def cache(tmp_path: Path, index: Path) -> Path:
    """A cache without wheels, beside an index with one."""
    write_wheel(index, "plain", "1.0")
    return tmp_path / "cache"


@pytest.fixture
def endless(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache whose wheels come from an index that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as index:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{index.getsockname()[1]}/simple")
        yield cache


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ENDS_WITHIN_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def commands_of(cache: Path) -> list[str]:
    """Return the command lines that name the cache: the process, and pip."""
    commands = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            commands.append(file.read_text(errors="replace"))
    return [command for command in commands if str(cache) in command]


def test_the_build_reuses_what_was_packed_early(tmp_path, cache, monkeypatch):
    with EarlyPacking(cache) as early:
        early.start(PLAIN)
        wait_until(lambda: bool(list(cache.glob("environments/*/report.json"))))
        monkeypatch.setattr(packing, "_pack", lambda *_: pytest.fail("packed a second time"))
        built = build_environment(PLAIN.requirements, file=tmp_path / "env.tar.gz", cache_dir=cache)
    (packed,) = cache.glob("environments/*/env.tar.gz")
    assert built.sha256 == sha256_of(packed)


def test_packages_that_cannot_be_packed_are_reported_by_the_build_alone(cache):
    with EarlyPacking(cache) as early:
        early.start(Packages(("missing==1.0",), dependencies=True))
        assert early._process is not None
        assert early._process.wait(ENDS_WITHIN_S) != 0
    assert not list(cache.glob("environments/*"))


def test_the_end_of_the_block_ends_the_process_and_pip(endless):
    with EarlyPacking(endless) as early:
        early.start(PLAIN)
        wait_until(lambda: any("download" in command for command in commands_of(endless)))
    assert early._process is not None
    assert early._process.returncode == 1, "it ended by itself"
    assert not commands_of(endless)


def test_a_killed_build_ends_the_process_and_pip(endless):
    killed = subprocess.Popen([sys.executable, "-c", ORPHAN, str(endless.parent)])
    wait_until(lambda: any("download" in command for command in commands_of(endless)))
    killed.kill()
    killed.wait()
    wait_until(lambda: not commands_of(endless))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["tokenizers", "onnxruntime"]),
        ({"one_model": False}, ["tokenizers"]),
        ({"format": "torchscript"}, ["tokenizers"]),
        ({"input": "tokens"}, None),
    ],
)
def test_likely_packages_follow_the_recipe(options, expected):
    recipe = TextEmbeddingRecipe(kind="text-embedding", **options)
    packages = likely_packages(recipe, parse_target("cpu"))
    names = None if packages is None else [line.partition("==")[0] for line in packages.requirements]
    assert names == expected
