"""Damage project files at random, and report how `validate` responds.

    python -m tools.mutate_files --count 2000 --seed 1

Report per kind of file: the rejected mutations, the rejections that name line, field, and remedy, the
exceptions that are not error messages, and the longest time beyond the unchanged file's. The exit code is 1
for an exception, for two seconds more, or if fewer than 95 % of the rejections are complete.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tritonstack.base.errors import FileViolation
from tritonstack.base.paths import Project
from tritonstack.base.yaml import load_yaml
from tritonstack.project.loading import ProjectFiles
from tritonstack.project.validation import validate_project

ROOT = Path(__file__).resolve().parents[1]
SLOWEST_S = 2.0
COMPLETE = 0.95
_JUNK = (
    *("null", "~", "''", "[]", "{}", "-1", "0", "1e999", ".nan", "9" * 30, "true", "2026-01-01", "1:30"),
    *("*a", "&a b", "!!int x", "!tag x", "[[[[", "{a: {b: [c]}}", "'unclosed", "\t", "\x07", "${name}"),
    *("${nothing}", "é" * 300, "x" * 5000, "../../etc/passwd", "%x", "@x", "0x_", "- -", ": :"),
)


@dataclass
class Tally:
    """Results of the mutations of one kind of file."""

    tried: int = 0
    accepted: int = 0
    rejected: int = 0
    complete: int = 0
    crashed: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    @property
    def share(self) -> float:
        """Return the share of rejections with a line, a remedy, and (if the text is YAML) a field."""
        return self.complete / self.rejected if self.rejected else 1.0

    def __str__(self) -> str:
        return (
            f"{self.tried:>6} {self.accepted:>9} {self.rejected:>8} {self.share:>9.1%} "
            f"{len(self.crashed):>11} {self.slowest_s:>9.2f}"
        )


def main(arguments: list[str]) -> int:
    """Mutate the files and print a report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--count", type=int, default=2000, help="number of mutations, over all kinds of files"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="number of incomplete rejections to print")
    options = parser.parse_args(arguments)
    tallies = run(options.count, options.seed)
    print("file          tried  accepted rejected  complete  exceptions  slowest s")
    for kind, tally in tallies.items():
        print(f"{kind:<12} {tally}")
        for text in [*tally.crashed[:5], *tally.incomplete[: options.show]]:
            print(f"    {text}")
    return 0 if all(is_fine(tally) for tally in tallies.values()) else 1


def is_fine(tally: Tally) -> bool:
    """Return whether a kind of file meets the limits."""
    return not tally.crashed and tally.slowest_s < SLOWEST_S and tally.share >= COMPLETE


def run(count: int, seed: int) -> dict[str, Tally]:
    """Mutate copies of this repository's own files."""
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        project = _copy(Path(folder) / "project")
        files = _files(project)
        usual = min(_timed(project)[1] for _ in range(3))
        tallies = {kind: Tally() for kind in files}
        for number in range(count):
            chance = random.Random(f"{seed}/{number}")  # noqa: S311 - reproducible, not secret
            kind = list(files)[number % len(files)]
            _try_one(project, chance.choice(files[kind]), chance, usual, tallies[kind])
        return tallies


def _copy(root: Path) -> Project:
    for name in ("environments", "models", "containers"):
        shutil.copytree(ROOT / name, root / name)
    for name in ("cdk.json", "delivery.yaml"):
        shutil.copy(ROOT / name, root / name)
    return Project(root)


def _files(project: Project) -> Mapping[str, list[Path]]:
    files = sorted(project.environments_dir.glob("*.yaml"))
    locks = [file for file in files if file.name.endswith(".lock.yaml")]
    templates = [file for file in files if file.name.endswith(".template.yaml")]
    return {
        "environment": [file for file in files if file not in locks + templates],
        "template": templates,
        "lock": locks,
        "model": sorted(project.models_dir.glob("*/model.yaml")),
        "delivery": [project.delivery_file],
    }


def _timed(project: Project) -> tuple[list[FileViolation], float]:
    began = time.process_time()
    violations = validate_project(ProjectFiles(project))
    return violations, time.process_time() - began


def _try_one(project: Project, file: Path, chance: random.Random, usual: float, tally: Tally) -> None:
    content = file.read_bytes()
    mutated = chance.choice(_MUTATIONS)(content, chance)
    file.write_bytes(mutated)
    tally.tried += 1
    try:
        violations, took = _timed(project)
    except Exception:
        tally.crashed.append(traceback.format_exc().strip().splitlines()[-1])
        return
    finally:
        file.write_bytes(content)
    tally.slowest_s = max(tally.slowest_s, took - usual)
    own_violations = [violation for violation in violations if violation.file == file]
    if not violations:
        tally.accepted += 1
        return
    tally.rejected += 1
    # The error may be reported in a file that refers to this one.
    if any(_is_complete(violation, mutated) for violation in own_violations or violations):
        tally.complete += 1
    else:
        tally.incomplete.append(str((own_violations or violations)[0]))


def _is_complete(violation: FileViolation, content: bytes) -> bool:
    """Return whether a problem names its line, a remedy and its field, which only YAML has."""
    return bool(violation.line and violation.remedy) and bool(violation.field or not _has_fields(content))


def _has_fields(content: bytes) -> bool:
    try:
        return isinstance(load_yaml(content.decode()), dict)
    except (UnicodeDecodeError, yaml.YAMLError):
        return False


Mutation = Callable[[bytes, random.Random], bytes]


def _line_edit(edit: Callable[[list[bytes], int, random.Random], object]) -> Mutation:
    def mutate(content: bytes, chance: random.Random) -> bytes:
        lines = content.splitlines(keepends=True) or [b"\n"]
        edit(lines, chance.randrange(len(lines)), chance)
        return b"".join(lines)

    return mutate


def _swap(lines: list[bytes], at: int, chance: random.Random) -> None:
    other = chance.randrange(len(lines))
    lines[at], lines[other] = lines[other], lines[at]


def _indent(lines: list[bytes], at: int, chance: random.Random) -> None:
    lines[at] = chance.choice((b" ", b"  ", b"    ", b"\t")) + lines[at]


def _new_value(lines: list[bytes], at: int, chance: random.Random) -> None:
    key = lines[at].partition(b":")[0]
    lines[at] = key + b": " + chance.choice(_JUNK).encode() + b"\n"


def _misspell(lines: list[bytes], at: int, chance: random.Random) -> None:
    matches = list(re.finditer(rb"[A-Za-z_]{3,}", lines[at]))
    if matches:
        begin = chance.choice(matches).start()
        lines[at] = lines[at][:begin] + lines[at][begin + 1 :]


def _flip(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 3, 10))):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _insert(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] + chance.choice(_JUNK).encode() + content[at:]


def _cut(content: bytes, chance: random.Random) -> bytes:
    begin, end = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    return chance.choice((content[:begin], content[begin:], content[:begin] + content[end:]))


_MUTATIONS: tuple[Mutation, ...] = (
    _line_edit(lambda lines, at, _: lines.pop(at)),
    _line_edit(lambda lines, at, _: lines.insert(at, lines[at])),
    _line_edit(_swap),
    _line_edit(_indent),
    _line_edit(_new_value),
    _line_edit(_new_value),
    _line_edit(_misspell),
    _line_edit(_misspell),
    _flip,
    _insert,
    _cut,
)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
