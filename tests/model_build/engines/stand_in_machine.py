"""A machine that simulates a GPU, and the TensorRT of a Triton release."""

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from model_build.checking import archive_checks
from model_build.engines import machine
from model_build.store.archive import PackedArchive
from tritonstack.facts.releases import RELEASES
from tritonstack.triton.installation import RECORD_NAME

STAND_IN = Path(__file__).with_name("stand_in_trtexec.py")
PACKAGE_NUMBERS = {"8.6.1": 6, "10.0.1": 6, "10.4.0": 26, "10.9.0": 34, "10.13.3": 9, "10.16.0": 72}


@dataclass(frozen=True)
class Machine:
    """A machine with the path of its trtexec."""

    trtexec: Path

    def commands(self) -> list[list[str]]:
        """Return the recorded command lines of trtexec."""
        lines = (self.trtexec.parent / "commands.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


def simulated_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, release: str, capability: str
) -> Machine:
    folder.mkdir(parents=True, exist_ok=True)
    trtexec = folder / "trtexec"
    code = STAND_IN.read_text().split("\n", 1)[1]
    trtexec.write_text(f"#!{sys.executable}\n{code}")
    trtexec.chmod(0o755)
    version = RELEASES[release].tensorrt
    numbers = [int(number) for number in version.split(".")]
    facts = {"version": [*numbers, PACKAGE_NUMBERS.get(version, 0)], "capability": capability}
    (folder / "stand_in.json").write_text(json.dumps(facts))
    gpu = folder / "nvidiactl"
    gpu.touch()
    monkeypatch.setattr(machine, "DEVICE", gpu)
    monkeypatch.setattr(machine, "TRTEXEC", trtexec)
    return Machine(trtexec)


def simulated_server(home: Path, server: Path, monkeypatch: pytest.MonkeyPatch, *, capability: str) -> Path:
    """The local server with a TensorRT backend that serves models for a GPU on the CPU."""
    home.mkdir()
    for part in server.iterdir():
        if part.name not in ("backends", RECORD_NAME):
            (home / part.name).symlink_to(part.resolve())
    record = json.loads((server / RECORD_NAME).read_text())
    # The links lead there, and it may lie where the server's world of its own has other files.
    record["outside"].append(str(server.resolve()))
    (home / RECORD_NAME).write_text(json.dumps(record))
    shutil.copytree(server / "backends", home / "backends")
    backend = home / "backends" / "tensorrt"
    backend.mkdir()
    shutil.copyfile(STAND_IN.with_name("stand_in_tensorrt.py"), backend / "model.py")
    (backend / "capability").write_text(capability)
    real = archive_checks.unpack_own

    def unpack_for_the_processor(packed: PackedArchive, folder: Path) -> None:
        real(packed, folder)
        for config in folder.glob("*/config.pbtxt"):
            config.write_text(config.read_text().replace("KIND_GPU", "KIND_CPU"))

    monkeypatch.setattr(archive_checks, "unpack_own", unpack_for_the_processor)
    return home
