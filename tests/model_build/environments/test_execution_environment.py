"""The environment archive: reproducible bytes, for every Python that activates it.

Starts real interpreters, each for a moment.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from model_build.environments.packing import (
    IMAGE_PYTHON,
    PYTHONS,
    build_environment,
    installed_requirement,
    target_python,
)
from model_build.environments.wheels import bound_python, fetch_wheels, read_requirements, wheel_name
from model_build.errors import EnvironmentBuildError
from tests.model_build.environments.wheels import write_wheel
from tritonstack.base.files import sha256_of
from tritonstack.files.records.manifests import EnvironmentReport

pytestmark = pytest.mark.e2e

PROBE = (
    "import sys, tokenizers, numpy; "
    "print(sys.prefix, tokenizers.__file__, numpy.__file__, tokenizers.__version__, sep='|')"
)
COMPILED = "import markupsafe._speedups as compiled; print(compiled.__file__)"


class Packed(NamedTuple):
    report: EnvironmentReport
    file: Path
    cache: Path


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    folder = tmp_path_factory.mktemp("environment")
    file, cache = folder / "env.tar.gz", folder / "cache"
    report = build_environment(
        [installed_requirement("tokenizers")], file=file, cache_dir=cache, dependencies=False
    )
    return Packed(report, file, cache)


@pytest.fixture
def plain_cache(tmp_path: Path, index: Path) -> Path:
    """A cache to build in, and an index with one small package."""
    write_wheel(index, "plain", "1.0")
    return tmp_path / "cache"


def unpacked(packed: Packed, folder: Path) -> Path:
    with tarfile.open(packed.file) as tar:
        tar.extractall(folder, filter="tar")
    return folder


def activate(
    environment: Path, python_folder: Path, *, times: int = 1, probe: str = PROBE
) -> subprocess.CompletedProcess[str]:
    """Do what Triton's launcher does, with an image whose python3 is in `python_folder`."""
    source = f'source "{environment}/bin/activate" && '
    script = f'{source * times}exec python3 -I -c "$PROBE"'
    return subprocess.run(
        ["bash", "-c", script],
        env={"PATH": f"{python_folder}:/usr/bin:/bin", "PROBE": probe},
        capture_output=True,
        text=True,
        check=False,
    )


def enter(environment: Path, probe: str) -> subprocess.CompletedProcess[str]:
    """What Triton's launcher does from 25.08 on: it sets variables and runs no script of the environment.

    After ParseActivationScript and PrepareEnvironment in python_backend's src/pb_utils.cc. The stub embeds
    Python, which then looks for its home as a `python3` found on PATH does.
    """
    variables = {
        "VIRTUAL_ENV": str(environment),
        "PATH": f"{environment}/bin:/usr/local/bin:/usr/bin:/bin",
        "LD_LIBRARY_PATH": f"{environment}/lib:",
    }
    return subprocess.run(
        ["env", "python3", "-c", probe], env=variables, capture_output=True, text=True, check=False
    )


def require_image_python() -> str:
    """Return the version of this machine's /usr/bin/python3 if environments support it."""
    if not IMAGE_PYTHON.exists():
        pytest.skip(f"no {IMAGE_PYTHON} on this machine")
    version = subprocess.check_output(
        [IMAGE_PYTHON, "-c", "import sys; print(*sys.version_info[:2], sep='.')"], text=True
    ).strip()
    return version if version in PYTHONS else pytest.skip(f"{IMAGE_PYTHON} is Python {version}")


def other_python(version: str) -> Path:
    candidates = [Path(shutil.which(f"python{version}") or "/nowhere")]
    candidates += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for candidate in filter(Path.exists, candidates):
        if subprocess.run([candidate, "-c", "import venv"], check=False, capture_output=True).returncode == 0:
            return candidate
    pytest.skip(f"no Python {version} on this machine")


def test_an_environment_contains_only_required_packages_and_runs_on_any_python(packed):
    assert packed.report.pythons == ()
    assert packed.report.packages == (installed_requirement("tokenizers"),)
    with tarfile.open(packed.file) as tar:
        names = [member.name for member in tar if member.isfile()]
    assert {"bin/activate", "adapt_environment.py", "packages/tokenizers/tokenizers.abi3.so"} <= set(names)
    assert not [name for name in names if "numpy" in name or name.endswith(".pyi") or "__pycache__" in name]


def test_activation_is_repeatable_and_concurrent(packed, tmp_path):
    environment = unpacked(packed, tmp_path / "env")
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda _: activate(environment, Path(sys.executable).parent), range(12)))
    assert {result.returncode for result in done} == {0}, [result.stderr for result in done]
    (output,) = {result.stdout for result in done}
    prefix, tokenizers_file, numpy_file, version = output.strip().split("|")
    assert prefix == str(environment)
    assert tokenizers_file.startswith(str(environment))
    assert not numpy_file.startswith(str(environment))
    assert version == installed_requirement("tokenizers").partition("==")[2]
    twice = activate(environment, Path(sys.executable).parent, times=2)
    assert twice.stdout == done[0].stdout
    assert not [
        path for path in environment.rglob("*") if path.name.rpartition(".")[2].isdecimal() and path.is_file()
    ]


def test_a_python_without_numpy_is_reported(packed, tmp_path):
    environment = unpacked(packed, tmp_path / "env")
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    done = activate(environment, bare / "bin")
    assert done.returncode != 0
    assert "NumPy" in done.stderr


def test_environment_is_entered_by_releases_without_activation(packed, tmp_path):
    """25.08 and later do not run bin/activate."""
    require_image_python()
    environment = unpacked(packed, tmp_path / "env")
    done = enter(
        environment, "import sys, site, tokenizers; print(sys.prefix, tokenizers.__file__, *sys.path)"
    )
    assert done.returncode == 0, done.stderr
    prefix, tokenizers_file, *path = done.stdout.split()
    assert prefix == str(environment)
    assert tokenizers_file.startswith(str(environment / "packages"))
    # The image's own packages, NumPy among them, come last.
    system = subprocess.check_output(
        [IMAGE_PYTHON, "-I", "-c", "import site; print(*site.getsitepackages())"], text=True
    )
    shared = [folder for folder in system.split() if Path(folder).exists()]
    assert shared
    assert path[-len(shared) :] == shared


@pytest.mark.soak
@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13"])
def test_activated_by_the_python_of_other_images(packed, tmp_path, version):
    image = tmp_path / "image"
    subprocess.run([other_python(version), "-m", "venv", "--without-pip", str(image)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(image / "bin/python3"), "install", "--quiet"]
    subprocess.run([*pip, "numpy<2.3", "--only-binary=:all:"], check=True, env=os.environ)
    environment = unpacked(packed, tmp_path / "env")
    done = activate(environment, image / "bin")
    assert done.returncode == 0, done.stderr
    prefix, tokenizers_file, numpy_file, _ = done.stdout.strip().split("|")
    assert (prefix, numpy_file.startswith(str(image))) == (str(environment), True)
    assert tokenizers_file.startswith(str(environment))


def test_an_environment_is_cached_and_rebuilt_if_damaged(packed, tmp_path):
    (cached,) = (packed.cache / "environments").glob("*/env.tar.gz")
    cached.write_bytes(cached.read_bytes()[:-1])
    again = build_environment(
        [installed_requirement("tokenizers")],
        file=tmp_path / "env.tar.gz",
        cache_dir=packed.cache,
        dependencies=False,
    )
    assert again.sha256 == sha256_of(tmp_path / "env.tar.gz") == packed.report.sha256
    assert sha256_of(cached) == packed.report.sha256


def test_compiled_packages_have_one_folder_per_python(tmp_path):
    (tmp_path / "part").mkdir()
    report = build_environment(
        [installed_requirement("MarkupSafe")],
        file=tmp_path / "part/env.tar.gz",
        cache_dir=tmp_path / "cache",
    )
    assert (report.path, report.pythons) == ("part/env.tar.gz", ("py310", "py311", "py312"))
    assert target_python(report, "py310") is None
    with tarfile.open(tmp_path / "part/env.tar.gz") as tar:
        compiled = sorted(name for name in tar.getnames() if name.endswith(".so"))
        assert [name.partition("/")[0] for name in compiled] == [f"packages-{tag}" for tag in report.pythons]
        tar.extractall(tmp_path / "env", filter="tar")
    done = activate(tmp_path / "env", Path(sys.executable).parent, probe=COMPILED)
    assert done.returncode == 0, done.stderr
    assert "/packages-py311/" in done.stdout
    done = enter(tmp_path / "env", COMPILED)  # without activation
    assert done.returncode == 0, done.stderr
    assert f"/packages-py{require_image_python().replace('.', '')}/" in done.stdout


def test_an_environment_for_some_pythons_binds_the_artifact_and_rejects_others(tmp_path, plain_cache):
    file = tmp_path / "env.tar.gz"
    report = build_environment(["plain==1.0"], file=file, cache_dir=plain_cache, pythons=["3.12"])
    assert target_python(report, "py310") == "py312"
    report = build_environment(["plain==1.0"], file=file, cache_dir=plain_cache, pythons=["3.10", "3.12"])
    assert (report.pythons, target_python(report, None)) == (("py310", "py312"), None)
    with tarfile.open(file) as tar:
        tar.extractall(tmp_path / "env", filter="tar")
    done = activate(tmp_path / "env", Path(sys.executable).parent)
    assert done.returncode != 0
    assert "py310 and py312" in done.stderr
    assert "python3.11" in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        *("six", "six>=1.16", "six==1.*", "six @ https://example.com/six.whl", "-r /etc/passwd"),
        *("--index-url=https://example.com six==1.16.0", "git+https://example.com/six", "./six"),
    ],
)
def test_inexact_versions_are_rejected(line):
    with pytest.raises(EnvironmentBuildError) as caught:
        read_requirements(f"# packages\n{line}\n")
    assert line in caught.value.message


def test_a_requirements_file_as_pip_compile_writes_it():
    text = """\
# made by a tool
six==1.16.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via x
idna==3.7 ; python_version >= '3.9'  # note
"""
    assert read_requirements(text) == (
        "six==1.16.0 --hash=sha256:aa --hash=sha256:bb",
        'idna==3.7; python_version >= "3.9"',
    )


def test_dependencies_match_the_python_of_the_image(tmp_path, index):
    """pip evaluates `python_version` for its own Python: what only 3.10 needs is requested again."""
    needs = ["old ; python_version < '3.11'", "extra ; extra == 'more'", "numpy>=1.20"]
    write_wheel(index, "plain", "1.0", requires=needs)
    write_wheel(index, "old", "2.0", requires=["older==0.1"])
    for name, version in (("older", "0.1"), ("extra", "5.0"), ("numpy", "1.26.4"), ("numpy", "2.1.0")):
        write_wheel(index, name, version)

    def names(python: str, *requirements: str) -> list[str]:
        wheels = fetch_wheels(requirements, python=python, cache_dir=tmp_path / "wheels", dependencies=True)
        return [wheel_name(wheel) for wheel in wheels]

    assert names("3.10", "plain==1.0") == ["old==2.0", "older==0.1", "plain==1.0"]
    assert names("3.12", "plain[more]==1.0") == ["extra==5.0", "plain==1.0"]
    assert names("3.12", "plain==1.0", "numpy==2.1.0") == ["numpy==2.1.0", "plain==1.0"]


def test_hashes_are_checked_and_must_be_complete(tmp_path, index):
    wheel = write_wheel(index, "plain", "1.0", requires=["old ; python_version < '3.11'"])
    write_wheel(index, "old", "2.0")

    def fetch(digest: str, python: str) -> tuple[Path, ...]:
        line = f"plain==1.0 --hash=sha256:{digest}"
        return fetch_wheels([line], python=python, cache_dir=tmp_path / "wheels", dependencies=True)

    assert [path.name for path in fetch(sha256_of(wheel), "3.12")] == [wheel.name]
    with pytest.raises(EnvironmentBuildError, match="HASHES"):
        fetch("0" * 64, "3.12")
    with pytest.raises(EnvironmentBuildError, match=r"lack old, .*3\.10"):
        fetch(sha256_of(wheel), "3.10")


def test_data_of_a_wheel_is_placed_next_to_its_package(tmp_path, index):
    files = {
        "plain-1.0.data/purelib/plain/inside.py": "",
        "plain-1.0.data/scripts/plain": "#!python",
        "plain-1.0.data/headers/plain.h": "",
        "plain/tests/test_plain.py": "",
        "plain/compiled.pyx": "",
        "plain/a name (odd).txt": "",
    }
    write_wheel(index, "plain", "1.0", files=files)
    build_environment(["plain==1.0"], file=tmp_path / "env.tar.gz", cache_dir=tmp_path / "cache")
    with tarfile.open(tmp_path / "env.tar.gz") as tar:
        names = {member.name for member in tar if member.isfile() and ".dist-info" not in member.name}
    assert names == {
        "adapt_environment.py",
        "bin/activate",
        *(
            f"lib/python{python}/site-packages/{name}.pth"
            for python in PYTHONS
            for name in ("packages", "watch_stubs")
        ),
        "pyvenv.cfg",
        "packages/plain/__init__.py",
        "packages/plain/a name (odd).txt",
        "packages/plain/inside.py",
        "watch_stubs.py",
    }


@pytest.mark.parametrize(
    ("requirements", "reason"),
    [(["plain==9.9"], "plain==9.9"), (["plain==1.0", "needs==1.0"], "needs==1.0 and plain==1.0")],
)
def test_a_failure_of_pip_is_one_sentence_and_the_path_of_its_log(requirements, reason, tmp_path, index):
    for version in (*(f"0.{number}" for number in range(190, 200)), "1.0"):
        write_wheel(index, "plain", version)
    write_wheel(index, "needs", "1.0", requires=["plain==0.7"])
    with pytest.raises(EnvironmentBuildError) as caught:
        build_environment(
            requirements, file=tmp_path / "a.tar.gz", cache_dir=tmp_path / "cache", pythons=["3.12"]
        )
    assert caught.value.message.startswith("packages for Python 3.12: ")
    assert reason in caught.value.message
    remedy = str(caught.value.remedy)
    assert "`pythons`" in remedy
    log = Path(remedy.partition("pip log: ")[2]).read_text()
    assert " download --quiet " in log
    assert "ERROR: " in log
    assert "0.199" not in caught.value.message + remedy
    assert not (tmp_path / "a.tar.gz").exists()


@pytest.mark.parametrize(
    ("wheel", "bound"),
    [
        ("a-1-cp310-abi3-manylinux_2_17_x86_64.whl", None),
        ("a-1-py3-none-any.whl", None),
        ("a-1-cp310-cp310-manylinux_2_17_x86_64.whl", "py310"),
        ("a-1-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "py312"),
    ],
)
def test_wheels_bound_to_a_python_version(wheel, bound):
    assert bound_python(wheel) == bound
