"""Measure the speed of packing a model, and the size of an execution environment.

    python -m benchmarks.packing [--rounds 5] [--folder DIR]

Compare the archive of a 500 MB model directory (450 MB of float weights, 50 MB of text) with tar's through
gzip, pigz, and igzip (Debian packages pigz and isal), without and with the SHA-256 of the archive: medians of
interleaved rounds. Only the build's archive comes with the SHA-256 of every file.
Compare the environment of a served tokenizer with one that contains transformers and torch, made by the same
packer; this downloads torch.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import command, stopwatch
from model_build.environments.packing import build_environment, installed_requirement

WEIGHTS_BYTES, TEXT_BYTES, FILES = 450_000_000, 50_000_000, 9
OURS, STANDARD = "tritonstack, all digests", "tar -czf"
IGZIP, IGZIP_HASHED = "tar, igzip -1 -T 2", "tar, igzip -1 -T 2, archive's SHA-256"
ROWS = {
    OURS: "",
    STANDARD: 'tar -czf "$1" -C "$2" .',
    "tar, pigz -1 -p 2": 'tar -I "pigz -1 -p 2" -cf "$1" -C "$2" .',
    IGZIP: 'tar -I "igzip -1 -T 2" -cf "$1" -C "$2" .',
    IGZIP_HASHED: 'tar -cf - -C "$2" . | igzip -1 -T 2 -c | tee "$1" | openssl dgst -sha256',
}
"""Shell commands that pack $2 into $1."""
# The kernel's peak memory of this program alone; getrusage would include the parent's.
PACK = """
import json, sys, time
from pathlib import Path
from model_build.store.archive import pack
begin = time.perf_counter()
used = time.process_time()
packed = pack(Path(sys.argv[1]), Path(sys.argv[2]))
seconds, cpu = time.perf_counter() - begin, time.process_time() - used
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
peak = int(status["VmHWM"].split()[0]) * 1024
print(json.dumps({"digest": packed.digest, "seconds": seconds, "cpu": cpu, "peak": peak}))
"""


def main() -> None:
    """Measure both and print a table each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="number of runs")
    parser.add_argument(
        "--folder", type=Path, help="where to write the files (2 GB); default: a temporary folder"
    )
    parser.add_argument(
        "--cache", type=Path, help="where fetched wheels are kept; default: a temporary folder"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = Path(temporary)
        Console().print(measure_archives(folder, options.rounds))
        Console().print(measure_environments(folder, options.cache or folder / "cache"))


def measure_archives(folder: Path, rounds: int) -> Table:
    """Compare the build's archive of a model directory with tar's."""
    model = write_model(folder / "model")
    archives: dict[str, list[_Packed]] = {}
    for _ in range(rounds):
        for name in ROWS:
            archives.setdefault(name, []).append(_pack(name, model, folder / "packed.tar.gz"))
    title = f"a model directory of 500 MB, packed: medians of {rounds} interleaved rounds"
    table = Table("what", "wall (lowest-highest)", "CPU", "size", "peak memory", title=title)
    for name, runs in archives.items():
        wall = sorted(run.seconds for run in runs)
        table.add_row(
            name,
            f"{median(wall):.2f} s ({wall[0]:.2f}-{wall[-1]:.2f})",
            f"{median(run.cpu for run in runs):.2f} s",
            f"{median(run.size for run in runs) / 1e6:.1f} MB",
            f"{max(run.peak for run in runs) / 1e6:.0f} MB" if runs[0].peak else "",
        )
    _add_ratios(table, archives)
    return table


def _add_ratios(table: Table, archives: Mapping[str, Sequence[_Packed]]) -> None:
    """Add the ratios to the other archives, each the median of the rounds."""
    for name, limit in ((IGZIP, "at most 1"), (IGZIP_HASHED, ""), (STANDARD, "at most 0.125")):
        ratios = [
            ours.seconds / other.seconds for ours, other in zip(archives[OURS], archives[name], strict=True)
        ]
        table.add_row(f"{OURS} / {name}", f"{median(ratios):.2f}", limit and f"limit: {limit}")
    larger = archives[OURS][0].size / archives[STANDARD][0].size - 1
    table.add_row("larger than tar -czf", f"{larger * 100:+.2f} %", "limit: 1 %")
    table.add_row("digests in all rounds", str(len({run.digest for run in archives[OURS]})), "limit: 1")


@dataclass(frozen=True)
class _Packed:
    """One archive."""

    seconds: float
    cpu: float
    size: int
    digest: str = ""
    peak: int = 0


def _pack(name: str, model: Path, archive: Path) -> _Packed:
    archive.unlink(missing_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    own: dict[str, Any] = {}
    with stopwatch() as elapsed:
        if name == OURS:
            own = _pack_in_a_process_of_its_own(model, archive)
        else:
            command("sh", "-c", ROWS[name], "sh", str(archive), str(model))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return _Packed(
        own.get("seconds", elapsed[0]),
        own.get("cpu", cpu),
        archive.stat().st_size,
        own.get("digest", ""),
        own.get("peak", 0),
    )


def measure_environments(folder: Path, cache: Path) -> Table:
    """Compare the environment of a served tokenizer with one of the whole framework."""
    table = Table("what", "packed", "unpacked", "packages", title="execution environments")
    reports = {}
    for name, requirements, dependencies in (
        ("tokenizer", [installed_requirement("tokenizers")], False),
        ("framework", [installed_requirement("transformers"), f"torch=={_public_version('torch')}"], True),
    ):
        part = folder / name
        part.mkdir()
        reports[name] = build_environment(
            requirements,
            file=part / "env.tar.gz",
            cache_dir=cache,
            pythons=() if name == "tokenizer" else [f"3.{sys.version_info.minor}"],
            dependencies=dependencies,
        )
        report = reports[name]
        table.add_row(
            name,
            f"{report.size_bytes / 1e6:.1f} MB",
            f"{report.unpacked_bytes / 1e6:.1f} MB",
            str(len(report.packages)),
        )
        shutil.rmtree(part)
    share = reports["tokenizer"].size_bytes / reports["framework"].size_bytes
    table.add_row("tokenizer / framework", f"{share:.3f}", "", "limit: 0.1")
    return table


def _public_version(distribution: str) -> str:
    """Return the version without a local part such as +cpu."""
    return installed_requirement(distribution).partition("==")[2].partition("+")[0]


def write_model(folder: Path) -> Path:
    """Write weights with a typical distribution (floats around zero), and text (Python's library)."""
    folder.mkdir()
    random = np.random.default_rng(20240917)
    for number in range(FILES):
        size = WEIGHTS_BYTES // FILES // 4
        weights = random.standard_normal(size, dtype=np.float32) * 0.02
        (folder / f"weights-{number}.bin").write_bytes(weights.tobytes())
    with (folder / "programs.txt").open("wb") as text:
        for program in itertools.cycle(sorted(Path(json.__file__).parents[1].rglob("*.py"))):
            text.write(program.read_bytes()[: TEXT_BYTES - text.tell()])
            if text.tell() == TEXT_BYTES:
                break
    return folder


def _pack_in_a_process_of_its_own(model: Path, archive: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PACK, str(model), str(archive)], capture_output=True, text=True, check=True
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    main()
