"""For any damage to a project file, `validate` quickly names line, field, and remedy."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tritonstack.base.errors import FileViolation
from tritonstack.base.paths import Project, find_project
from tritonstack.base.yaml import load_yaml
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.validation import validate_project

SLOWEST_S = 2.0
COMPLETE = 0.95
JUNK = (
    *("null", "~", "''", "[]", "{}", "-1", "0", "1e999", ".nan", "9" * 30, "true", "2026-01-01", "1:30"),
    *("*a", "&a b", "!!int x", "!tag x", "[[[[", "{a: {b: [c]}}", "'unclosed", "\t", "\x07", "${name}"),
    *("${nothing}", "é" * 300, "x" * 5000, "../../etc/passwd", "%x", "@x", "0x_", "- -", ": :"),
)


def new_value(line: bytes, chance: random.Random) -> bytes:
    return line.partition(b":")[0] + b": " + chance.choice(JUNK).encode() + b"\n"


def misspelled(line: bytes, chance: random.Random) -> bytes:
    places = [match.start() for match in re.finditer(rb"[A-Za-z_]{3,}", line)]
    place = chance.choice(places) if places else 0
    return line[:place] + line[place + 1 :]


LINES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    lambda line, chance: b"",
    lambda line, chance: line + line,
    lambda line, chance: chance.choice((b" ", b"  ", b"    ", b"\t")) + line,
    *(new_value, new_value, misspelled, misspelled),
)


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Damage a line, some bytes, or a part of a file."""
    kind = chance.randrange(len(LINES) + 3)
    begin, end = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    if kind < len(LINES):
        lines = content.splitlines(keepends=True)
        number = chance.randrange(len(lines))
        lines[number] = LINES[kind](lines[number], chance)
        return b"".join(lines)
    if kind == len(LINES):
        return content[:begin] + chance.choice(JUNK).encode() + content[begin:]
    if kind == len(LINES) + 1:
        return chance.choice((content[:begin], content[begin:], content[:begin] + content[end:]))
    return content[:begin] + chance.randbytes(1) + content[begin + 1 :]


def is_complete(violation: FileViolation, content: bytes) -> bool:
    """Return whether a problem names its line, a remedy, and its field, which only YAML has."""
    try:
        has_fields = isinstance(load_yaml(content.decode()), dict)
    except (UnicodeDecodeError, yaml.YAMLError):
        has_fields = False
    return bool(violation.line and violation.remedy and (violation.field or not has_fields))


def seconds(project: Project) -> tuple[list[FileViolation], float]:
    began = time.process_time()
    return validate_project(ProjectFiles(project)), time.process_time() - began


@pytest.mark.parametrize(("seed", "count"), [(7, 250), pytest.param(1, 2000, marks=pytest.mark.soak)])
def test_random_mutations_are_accepted_or_explained(tmp_path: Path, seed: int, count: int) -> None:
    root = find_project(Path(__file__)).root
    for name in ("environments", "models", "containers"):
        shutil.copytree(root / name, tmp_path / name)
    for name in ("cdk.json", "delivery.yaml"):
        shutil.copy(root / name, tmp_path / name)
    project = Project(tmp_path)
    usual = min(seconds(project)[1] for _ in range(3))
    patterns = ("*/*.lock.yaml", "*/dev.yaml", "*/*.template.yaml", "models/*/model.yaml", "delivery.yaml")
    counts, incomplete = Counter[str](), []
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")  # noqa: S311 - repeatable
        pattern = patterns[number % len(patterns)]
        file = chance.choice(sorted(tmp_path.glob(pattern)))
        content = file.read_bytes()
        file.write_bytes(mutated := damaged(content, chance))
        violations, took = seconds(project)
        file.write_bytes(content)
        assert took - usual < SLOWEST_S, (file, mutated)
        if violations:
            # The error may be reported in a file that refers to this one.
            own = [violation for violation in violations if violation.file == file] or violations
            counts[pattern] += 1
            incomplete += [] if any(is_complete(violation, mutated) for violation in own) else own[:1]
    assert all(rejected > count / len(patterns) / 2 for rejected in counts.values()), counts
    assert counts.keys() == set(patterns)
    assert len(incomplete) <= (1 - COMPLETE) * counts.total(), incomplete
