"""Plant small faults in the product, and report which of them the nearest tests find.

`python -m tools.mutations --count 20 --seed 1` picks lines by the seed, changes one comparison, constant,
condition, or call each, and runs the tests that `make test-near` would run. A fault that no test finds is
printed with its line. The files are restored after each fault; run it in a clean working tree.
"""

from __future__ import annotations

import argparse
import ast
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.near_tests import ROOT, module_of, near_tests

AREAS = {
    "operate": "tritonstack/operate packages/sizing/tritonstack_sizing",
    "files": "tritonstack/files tritonstack/base",
    "build": "model_build",
    "constructs": "tritonstack/constructs stacks",
    "cloud": "packages/local_cloud/tritonstack_local",
}
MOST_FILES = 12
LIMIT_S = 300
COMPARISONS = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True)
class Mutation:
    """A piece of source and what takes its place."""

    file: Path
    start: int
    end: int
    old: str
    new: str
    line: int

    def describe(self) -> str:
        """Return where it is and what it changes, on one line."""
        return f"{self.file}:{self.line}: {' '.join(self.old.split())} -> {' '.join(self.new.split())}"


def mutations_of(file: Path) -> Iterator[Mutation]:
    """Yield each possible mutation of a file."""
    source = (ROOT / file).read_text()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in ast.walk(ast.parse(source)):
        if (new := _changed(node)) is None or not isinstance(node, ast.expr | ast.stmt):
            continue
        # Offsets of ast are bytes; lines that are not ASCII are left alone.
        lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
        if node.end_lineno is None or node.end_col_offset is None or not all(map(str.isascii, lines)):
            continue
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        yield Mutation(file, start, end, source[start:end], new, node.lineno)


def _changed(node: ast.AST) -> str | None:  # noqa: PLR0911 - one per kind
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=comparators) if type(operator) in COMPARISONS:
            return f"({ast.unparse(ast.Compare(left, [COMPARISONS[type(operator)]()], comparators))})"
        case ast.BoolOp(op=operator, values=values):
            swapped = ast.Or() if isinstance(operator, ast.And) else ast.And()
            return f"({ast.unparse(ast.BoolOp(swapped, values))})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"(bool({ast.unparse(operand)}))"
        case ast.Constant(value=bool() as value):
            return str(not value)
        case ast.Constant(value=int() as value) if value < 10_000:
            return str(value + 1)
        case ast.Expr(value=ast.Call()) | ast.Raise():
            return "pass"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            return "return None"
        case _:
            return None


def chosen(count: int, seed: int) -> list[Mutation]:
    """Return mutations of all areas in turn, each in another file where there are enough."""
    order = random.Random(seed)  # noqa: S311 - repeatable
    picked: list[Mutation] = []
    pools = {}
    for area, folders in AREAS.items():
        listed = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", *folders.split()], check=True, capture_output=True, text=True
        )
        files = [
            Path(name)
            for name in listed.stdout.splitlines()
            if name.endswith(".py") and "/tests/" not in name
        ]
        pools[area] = order.sample(files, len(files))
    while len(picked) < count and any(pools.values()):
        for files in pools.values():
            while files and len(picked) < count:
                if possible := list(mutations_of(files.pop())):
                    picked.append(order.choice(possible))
                    break
    return picked


def killed_by(mutation: Mutation) -> str:
    """Return `nearest`, `near`, or nothing if no test fails."""
    files = near_tests([module_of(mutation.file)])[:MOST_FILES]
    target = ROOT / mutation.file
    source = target.read_text()
    target.write_text(source[: mutation.start] + mutation.new + source[mutation.end :])
    try:
        for name, part in (("nearest", files[:1]), ("near", files[1:])):
            if part and _fails(part):
                target.write_text(source)
                if _fails(part):
                    sys.exit(f"these tests fail without a fault: {' '.join(map(str, part))}")
                return name
        return ""
    finally:
        target.write_text(source)


def _fails(files: list[Path]) -> bool:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-m",
        "not soak and not e2e",
        "-p",
        "no:cacheprovider",
    ]
    try:
        done = subprocess.run(
            [*command, *map(str, files)], cwd=ROOT, capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode not in {0, 5}


def main() -> int:
    """Plant and report."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutations", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    results = {}
    for mutation in chosen(options.count, options.seed):
        results[mutation] = killed_by(mutation)
        print(f"{results[mutation] or 'SURVIVED':9} {mutation.describe()}", flush=True)
    counts = [
        sum(kind in kinds for kind in results.values()) for kinds in (("nearest", "near"), ("nearest",))
    ]
    print(f"{len(results)} faults: {counts[0]} found, {counts[1]} of them by the nearest file")
    return 0


if __name__ == "__main__":
    sys.exit(main())
