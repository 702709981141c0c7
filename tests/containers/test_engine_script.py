"""tools/docker_engine.sh, with stand-ins for Docker's programs on PATH."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "docker_engine.sh"
# The client finds an engine while the engine's file is there.
CLIENT = '#!/bin/sh\n[ "$1" = version ] && [ -f "$ENGINE" ]\n'
DAEMON = '#!/bin/sh\ntrap \'rm "$ENGINE"; exit\' TERM\ntouch "$ENGINE"\nwhile :; do sleep 0.05; done\n'
BROKEN = "#!/bin/sh\necho 'no cgroups here' >&2\nexit 1\n"
NOT_ROOT = "#!/bin/sh\necho 1000\n"
ROOT = "#!/bin/sh\necho 0\n"
NO_APT = "#!/bin/sh\necho 'nothing can be fetched'\nexit 100\n"


@pytest.fixture
def machine(tmp_path):
    """A machine with a client, where `id` reports root."""
    programs = tmp_path / "bin"
    programs.mkdir()

    def run(*arguments, **played):
        for name, text in {"docker": CLIENT, "id": ROOT, **played}.items():
            (programs / name.replace("_", "-")).write_text(text)
            (programs / name.replace("_", "-")).chmod(0o755)
        for name in ("cat", "rm", "mkdir", "sleep", "seq", "touch", "tail", "timeout", "setsid", "sh"):
            link = programs / name
            link.exists() or link.symlink_to(shutil.which(name))
        variables = {
            "PATH": str(programs),
            "TRITONSTACK_HOME": str(tmp_path),
            "ENGINE": str(tmp_path / "engine"),
        }
        done = subprocess.run(
            ["/bin/sh", SCRIPT, *arguments],
            env=variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    yield run
    run("stop")


def test_an_engine_is_started_and_ended(machine, tmp_path):
    status, output = machine("start", dockerd=DAEMON)
    assert (status, "started" in output) == (0, True)
    status, output = machine("start")
    assert (status, "already running" in output) == (0, True)
    status, output = machine("stop")
    assert (status, output.startswith("stopped")) == (0, True)
    assert not (tmp_path / "engine").exists()
    assert machine("stop")[0] == 0


def test_running_engine_is_unchanged(machine, tmp_path):
    (tmp_path / "engine").touch()
    assert [machine(command)[0] for command in ("start", "stop")] == [0, 0]
    assert (tmp_path / "engine").exists()


def test_process_that_reused_the_id_of_an_ended_engine_is_not_killed(machine, tmp_path):
    with subprocess.Popen(["sleep", "60"]) as other:
        (tmp_path / "docker-engine").mkdir()
        (tmp_path / "docker-engine" / "pid").write_text(f"{other.pid}\n")
        status, output = machine("stop")
        assert (status, output.startswith("no ")) == (0, True)
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize(
    ("arguments", "played", "message"),
    [
        ((), {"id": NOT_ROOT, "dockerd": DAEMON}, "root is required"),
        ((), {}, "dockerd is not installed"),
        (("--install",), {}, "apt-get is missing"),
        (("--install",), {"apt_get": NO_APT}, "docker.io could not be installed; see "),
        ((), {"dockerd": BROKEN}, "no cgroups here"),
    ],
)
def test_a_failed_start_prints_its_reason(machine, arguments, played, message):
    status, output = machine("start", *arguments, **played)
    assert status == 1
    assert message in output
