"""The environment archive: the same bytes every time, and fit for whatever Python activates it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from model_build.archive import sha256_of
from model_build.errors import EnvironmentBuildError
from model_build.execution_environment import (
    OLDEST_PYTHON,
    ExecutionEnvironment,
    bound_python,
    build_environment,
    installed_requirement,
)

PROBE = (
    "import sys, tokenizers, numpy; "
    "print(sys.prefix, tokenizers.__file__, numpy.__file__, tokenizers.__version__, sep='|')"
)


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> ExecutionEnvironment:
    folder = tmp_path_factory.mktemp("environment")
    return build_environment(
        [installed_requirement("tokenizers")], file=folder / "env.tar.gz", cache_dir=folder / "cache"
    )


def unpacked(packed: ExecutionEnvironment, folder: Path) -> Path:
    with tarfile.open(packed.file) as tar:
        tar.extractall(folder, filter="data")
    return folder


def activate(environment: Path, python_folder: Path, *, times: int = 1) -> subprocess.CompletedProcess[str]:
    """What Triton's launcher does, with an image whose python3 lies in `python_folder`."""
    source = f'source "{environment}/bin/activate" && '
    script = f'{source * times}exec python3 -I -c "$PROBE"'
    return subprocess.run(
        ["bash", "-c", script],
        env={"PATH": f"{python_folder}:/usr/bin:/bin", "PROBE": PROBE},
        capture_output=True,
        text=True,
        check=False,
    )


def other_python(version: str) -> Path:
    found = shutil.which(f"python{version}")
    candidates = [Path(found)] if found else []
    candidates += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for candidate in candidates:
        if subprocess.run([candidate, "-c", "import venv"], check=False, capture_output=True).returncode == 0:
            return candidate
    pytest.skip(f"no Python {version} on this machine")


def test_it_runs_on_any_python(packed: ExecutionEnvironment) -> None:
    assert packed.python is None
    assert OLDEST_PYTHON == "3.10"


def test_it_holds_what_is_needed_only(packed: ExecutionEnvironment) -> None:
    with tarfile.open(packed.file) as tar:
        names = [member.name for member in tar if member.isfile()]
    assert {"bin/activate", "adapt_environment.py", "packages/tokenizers/tokenizers.abi3.so"} <= set(names)
    assert not [name for name in names if "numpy" in name or name.endswith(".pyi") or "__pycache__" in name]


def test_same_bytes_again(packed: ExecutionEnvironment, tmp_path: Path) -> None:
    again = build_environment(
        [installed_requirement("tokenizers")], file=tmp_path / "env.tar.gz", cache_dir=tmp_path / "cache"
    )
    assert sha256_of(again.file) == sha256_of(packed.file)


def test_activated_by_this_python(packed: ExecutionEnvironment, tmp_path: Path) -> None:
    environment = unpacked(packed, tmp_path / "env")
    done = activate(environment, Path(sys.executable).parent)
    assert done.returncode == 0, done.stderr
    prefix, tokenizers_file, numpy_file, version = done.stdout.strip().split("|")
    assert prefix == str(environment)
    assert tokenizers_file.startswith(str(environment))
    assert not numpy_file.startswith(str(environment))
    assert version == installed_requirement("tokenizers").partition("==")[2]


def test_activated_again_and_by_many_at_once(packed: ExecutionEnvironment, tmp_path: Path) -> None:
    environment = unpacked(packed, tmp_path / "env")
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda _: activate(environment, Path(sys.executable).parent), range(12)))
    assert {result.returncode for result in done} == {0}, [result.stderr for result in done]
    assert len({result.stdout for result in done}) == 1
    twice = activate(environment, Path(sys.executable).parent, times=2)
    assert twice.stdout == done[0].stdout
    assert not [
        path for path in environment.rglob("*") if path.name.rpartition(".")[2].isdecimal() and path.is_file()
    ]


def test_a_python_without_numpy_is_told(packed: ExecutionEnvironment, tmp_path: Path) -> None:
    environment = unpacked(packed, tmp_path / "env")
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    done = activate(environment, bare / "bin")
    assert done.returncode != 0
    assert "has no NumPy" in done.stderr


@pytest.mark.e2e
@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13"])
def test_activated_by_the_python_of_other_images(
    packed: ExecutionEnvironment, tmp_path: Path, version: str
) -> None:
    image = tmp_path / "image"
    subprocess.run([other_python(version), "-m", "venv", "--without-pip", str(image)], check=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(image / "bin" / "python3"),
        "install",
        "--quiet",
        "numpy<2.3",
    ]
    subprocess.run([*pip, "--only-binary=:all:"], check=True, env=os.environ)
    environment = unpacked(packed, tmp_path / "env")
    done = activate(environment, image / "bin")
    assert done.returncode == 0, done.stderr
    prefix, tokenizers_file, numpy_file, _ = done.stdout.strip().split("|")
    assert (prefix, numpy_file.startswith(str(image))) == (str(environment), True)
    assert tokenizers_file.startswith(str(environment))


@pytest.mark.parametrize(
    ("wheel", "bound"),
    [
        ("a-1-cp310-abi3-manylinux_2_17_x86_64.whl", None),
        ("a-1-py3-none-any.whl", None),
        ("a-1-cp310-cp310-manylinux_2_17_x86_64.whl", "py310"),
        ("a-1-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "py312"),
    ],
)
def test_which_wheels_are_bound_to_a_python(wheel: str, bound: str | None) -> None:
    assert bound_python(wheel) == bound


def test_a_bound_wheel_binds_the_environment(tmp_path: Path) -> None:
    requirement = installed_requirement("MarkupSafe")
    with pytest.raises(EnvironmentBuildError, match="run on py310 only") as caught:
        build_environment([requirement], file=tmp_path / "a.tar.gz", cache_dir=tmp_path / "cache")
    assert "cpu-py310" in str(caught.value)
    built = build_environment(
        [requirement], file=tmp_path / "a.tar.gz", cache_dir=tmp_path / "cache", python="py312"
    )
    assert built.python == "py312"


def test_a_package_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        EnvironmentBuildError, match=r"tokenizers==0\.0\.0 for Python 3\.10 cannot be fetched"
    ):
        build_environment(["tokenizers==0.0.0"], file=tmp_path / "a.tar.gz", cache_dir=tmp_path / "cache")
    assert not (tmp_path / "a.tar.gz").exists()
