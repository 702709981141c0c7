"""Limits of YAML files: aliases, nesting, numbers, and sizes cannot hang or crash a command."""

from __future__ import annotations

import ast
import os
import time
from pathlib import Path

import pytest
import yaml

from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.paths import Project
from tritonstack.base.yaml import (
    MAX_DEPTH,
    MAX_FILE_BYTES,
    MAX_REPEATED,
    MAX_VIOLATIONS,
    load_yaml,
    parse_yaml,
    read_text,
)
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.validation import validate_project

LIMIT_S = 1.0

ALIASES = "\n".join(
    ["bomb: &b0 {k: [x, x, x, x, x, x, x, x, x]}"]
    + [f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 12)]
)
MERGES = "\n".join(
    ["bomb: &b0 {k: v}"]
    + [f"b{n}: &b{n}\n  <<: [{', '.join([f'*b{n - 1}'] * 9)}]\n  k{n}: v" for n in range(1, 12)]
)
KEYS = "\n".join(
    ["bomb: &b0 [x, x]"] + [f"b{n}: &b{n} {{k: {{a: *b{n - 1}, b: *b{n - 1}}}}}" for n in range(1, 40)]
)
REPEATS, NESTED = f"repeat {MAX_REPEATED:,}", f"nested {MAX_DEPTH}"
BOMBS = {
    "aliases": (ALIASES, REPEATS),
    "merges": (MERGES, REPEATS),
    "aliases in mappings": (KEYS, REPEATS),
    "alias of itself": ("bomb: &b [*b]", "*b inside"),
    "alias of nothing": ("bomb: *b", "*b anchor"),
    "open brackets": (f"bomb: {'[' * 100_000}", NESTED),
    "closed brackets": (f"bomb: {'[' * 900}{']' * 900}", NESTED),
    "open braces": (f"bomb: {'{a: ' * 100_000}", NESTED),
    "indentation": ("\n".join(f"{' ' * level}bomb:" for level in range(900)), NESTED),
    "dashes": (f"bomb:\n  {'- ' * 100_000}x", NESTED),
    "long number": (f"bomb: {'1' * 5000}", "number 5000"),
    "hexadecimal number": (f"bomb: 0x{'f' * 100_000}", "number 100002"),
    "sexagesimal number": (f"bomb: 1{':1' * 200_000}", "number 400001"),
    "number of 65 bits": (f"bomb: {2**64}", f"{2**64} 64"),
    "number without digits": ("bomb: 0b_", "'0b_' number"),
    "tagged number": ("bomb: !!int text", "'text' number"),
    "tagged boolean": ("bomb: !!bool text", "'text' boolean"),
    "control character": ("bomb: \x00", "U+0000"),
    "two documents": ("---\nbomb: 1", "one document"),
}


def files(project: Project) -> list[Path]:
    """One project file of every kind."""
    return [
        project.model_file("minilm"),
        project.environment_file("dev"),
        project.lock_file("dev"),
        project.template_file("preview"),
        project.delivery_file,
    ]


def timed_violations(project: Project) -> list[FileViolation]:
    began = time.process_time()
    violations = validate_project(ProjectFiles(project))
    assert time.process_time() - began < LIMIT_S
    return violations


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("number", range(5), ids=["model", "environment", "lock", "template", "delivery"])
def test_a_bomb_is_rejected_within_a_second(project: Project, number: int, bomb: str) -> None:
    file = files(project)[number]
    before = file.read_text() if file.exists() else "schema: 1\n"
    text, words = BOMBS[bomb]
    file.write_text(f"{before}{text}\n")
    (violation,) = [violation for violation in timed_violations(project) if violation.file == file]
    assert all(word in violation.message for word in words.split())
    assert violation.line is not None
    assert violation.line > len(before.splitlines())
    assert violation.remedy


def test_a_file_with_thousands_of_violations_lists_the_first(project: Project) -> None:
    file = project.environment_file("dev")
    keys = "\n".join(f"instance_typo_{number}: 1" for number in range(20_000))
    file.write_text(f"{file.read_text()}{keys}\n")
    assert len(timed_violations(project)) == MAX_VIOLATIONS


def test_a_message_stays_short_and_printable(project: Project) -> None:
    file = project.environment_file("dev")
    file.write_text(f'{file.read_text()}"{"k" * 900}\\e[2J": {"v" * 100_000}\nregion: {"r" * 100_000}\n')
    said = "\n".join(map(str, timed_violations(project)))
    assert len(said) < 10_000
    assert "\x1b" not in said


def test_aliases_within_the_limit_are_read() -> None:
    text = f"a: &a [{', '.join('x' * 900)}]\n" + "\n".join(f"b{n}: *a" for n in range(10))
    data, lines = parse_yaml(text, Path("some.yaml"))
    assert data["b9"] == data["a"]
    assert lines["b9", 0] == 1
    with pytest.raises(InvalidFilesError, match=rf"some\.yaml:13: .* {MAX_REPEATED:,}"):
        parse_yaml(f"{text}\nb10: *a\nb11: *a\n", Path("some.yaml"))


def test_a_document_is_composed_as_by_the_library() -> None:
    text = """\
    - {a: 1, "b": '2', c: 3.5, d: ~, e: yes, f: 2026-01-01, ? g : [x, [y]]}
    - &base {x: 1, y: 2}
    - {<<: *base, y: 3}
    - !!str 12
    - ! 13
    - |
      text
      of two lines
    - *base
    """
    expected = yaml.safe_load(text.replace("2026-01-01", "'2026-01-01'"))
    assert load_yaml(text) == expected
    assert load_yaml("") is None
    assert load_yaml("# nothing\n") is None


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "dev.yaml"
    with file.open("wb") as stream:
        stream.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(InvalidFilesError, match=f"{MAX_FILE_BYTES:,}"):
        read_text(file)


def test_special_files_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    for name in ("pipe.yaml", "folder.yaml"):
        with pytest.raises(InvalidFilesError, match="regular file\n  help: "):
            read_text(tmp_path / name)


def test_the_line_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "dev.yaml"
    file.write_bytes(b"name: dev\nregion: \xff\n")
    with pytest.raises(InvalidFilesError, match=r"dev\.yaml:2: .*0xff"):
        read_text(file)


def test_all_yaml_is_read_through_one_function() -> None:
    """Exceptions: its own module, a text that it has read before, and CloudFormation's dialect."""
    root = Path(__file__).parents[2]
    rooms = (
        "stacks",
        "model_build",
        "packages/local_cloud/tritonstack_local",
        "packages/sizing/tritonstack_sizing",
        "tools",
        "tritonstack",
    )
    readers = {"load", "load_all", "safe_load", "safe_load_all", "full_load", "compose", "parse", "scan"}
    found = {
        file.relative_to(root).as_posix()
        for room in rooms
        for file in (root / room).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "yaml"
        if node.attr in readers or "Loader" in node.attr
    }
    assert found == {
        "tritonstack/base/yaml/parsing.py",
        "tritonstack/files/scaffold/yaml_edits.py",
        "packages/local_cloud/tritonstack_local/cloudformation/template.py",
    }
