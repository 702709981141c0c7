"""Measure the speed of packing a model, and the size of an execution environment.

    python -m benchmarks.packing [--rounds 3] [--folder DIR]

Compare the archive of a 500 MB model directory (450 MB of float weights, 50 MB of text) with `tar -czf` of
the same directory: the best of alternating rounds. Compare the environment of a served tokenizer with one
that contains transformers and torch, made by the same packer; this downloads torch.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import command, stopwatch
from model_build.environments.packing import build_environment, installed_requirement

WEIGHTS_BYTES, TEXT_BYTES, FILES = 450_000_000, 50_000_000, 9
# The kernel's peak memory of this program alone; getrusage would include the parent's.
PACK = """
import json, sys, time
from pathlib import Path
from model_build.store.archive import pack
begin = time.perf_counter()
packed = pack(Path(sys.argv[1]), Path(sys.argv[2]))
seconds = time.perf_counter() - begin
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
peak = int(status["VmHWM"].split()[0]) * 1024
print(json.dumps({"digest": packed.digest, "seconds": seconds, "peak": peak}))
"""


def main() -> None:
    """Measure both and print a table each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="number of runs, of which the best is reported")
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
    streamed, standard = folder / "ours.tar.gz", folder / "theirs.tar.gz"
    results, tar_times = [], []
    for _ in range(rounds):
        results.append(_pack_in_a_process_of_its_own(model, streamed))
        with stopwatch() as elapsed:
            command("tar", "-czf", str(standard), "-C", str(model), ".")
        tar_times.append(elapsed[0])
    best, tar_best = min(float(result["seconds"]) for result in results), min(tar_times)
    size, other = streamed.stat().st_size, standard.stat().st_size
    digests = {str(result["digest"]) for result in results}
    peak = max(int(result["peak"]) for result in results)
    table = Table("what", "measured", "limit", title="a model directory of 500 MB, packed")
    table.add_row("tar -czf", f"{tar_best:.1f} s, {other / 1e6:.1f} MB", "")
    table.add_row("tritonstack", f"{best:.2f} s, {size / 1e6:.1f} MB", "")
    table.add_row("times as fast", f"{tar_best / best:.1f} ×", "8 × or more")
    table.add_row("size", f"{(size / other - 1) * 100:+.2f} %", "within 1 %")
    table.add_row("digests in all rounds", str(len(digests)), "1")
    table.add_row("peak memory", f"{peak / 1e6:.0f} MB", "under 200 MB")
    return table


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


def _pack_in_a_process_of_its_own(model: Path, archive: Path) -> dict[str, str | float]:
    done = subprocess.run(
        [sys.executable, "-c", PACK, str(model), str(archive)], capture_output=True, text=True, check=True
    )
    result: dict[str, str | float] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    main()
