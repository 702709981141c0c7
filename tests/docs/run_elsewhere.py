"""Blocks of commands that a test outside of this folder runs, and whether it does."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import ROOT, Block

Words = frozenset[str]


@dataclass(frozen=True)
class Elsewhere:
    """A whole block, and the files that run its commands; for `make`, the file with the targets."""

    page: str
    text: str
    files: tuple[str, ...]


RUN_ELSEWHERE = (
    Elsewhere(
        "CONTRIBUTING.md",
        """\
make setup-dev     # everything that tests and lint need, in this folder only
make test-near     # the tests that reach what you changed, by their imports
make test-fast     # tests without a Triton server or a deployment
make test          # the tests that protect a change; CI runs these and `make lint`
make lint          # style, types, import rules, Dockerfiles, workflows
make help          # all targets
""",
        ("Makefile",),
    ),
    Elsewhere(
        "docs/delivery.md",
        """\
mkdir wheels && cp ../tritonstack/dist/*.whl wheels/
echo "--find-links wheels" >> requirements.txt
git add wheels requirements.txt && git commit --message "Add the wheels of tritonstack"
""",
        ("tests/packaging/test_repository.py",),
    ),
    Elsewhere(
        "docs/guides/tear-down.md",
        "tritonstack down --all\n",
        ("tests/cli/local/test_down.py",),
    ),
    Elsewhere(
        "docs/guides/upgrade.md",
        """\
pip install 'tritonstack[cli]==VERSION' && tritonstack upgrade
deactivate && rm -r .venv
""",
        ("tests/packaging/test_upgrade.py",),
    ),
    Elsewhere(
        "docs/guides/upgrade.md",
        """\
pip install --find-links ../tritonstack/dist 'tritonstack[cli]==VERSION' && tritonstack upgrade
pip install --no-deps --find-links ../tritonstack/dist -r requirements-local.txt && tritonstack setup
""",
        ("tests/packaging/test_upgrade.py", "tests/packaging/test_setup.py"),
    ),
    Elsewhere(
        "docs/local-cloud.md",
        """\
tritonstack up                           # in the foreground, until Ctrl-C
tritonstack up --detach                  # in the background, until `tritonstack down`
eval "$(tritonstack up --detach --shell)"  # and use it in this shell
""",
        (
            "tests/e2e/local_cloud/test_cloud_process.py",
            "tests/e2e/local_cloud/test_clients.py",
        ),
    ),
    Elsewhere(
        "docs/local-cloud.md",
        """\
eval "$(tritonstack up --detach --shell)"      # variables for this shell

export AWS_CONFIG_FILE=${TRITONSTACK_HOME:-$PWD/.tritonstack}/clouds/default/aws-profile
export AWS_SHARED_CREDENTIALS_FILE=$AWS_CONFIG_FILE
""",
        (
            "tests/cli/local/test_credentials.py",
            "tests/e2e/local_cloud/test_clients.py",
        ),
    ),
    Elsewhere(
        "docs/local-cloud.md",
        """\
tritonstack up --detach                            # account 000000000000
tritonstack up --detach --account 000000000001     # a second one
tritonstack down --account 000000000001            # stop the second; without --account, the first
tritonstack down --all                             # stop every cloud of this project
""",
        (
            "tests/e2e/local_cloud/test_cloud_process.py",
            "tests/cli/local/test_down.py",
        ),
    ),
    Elsewhere(
        "docs/local-cloud.md",
        """\
pytest tests/contract --container IMAGE                                  # a container of an image
pytest tests/contract --server http://127.0.0.1:8080 --model-root DIR    # a server at an address
pytest tests/contract --endpoint NAME --mode multi-model                 # an endpoint, local or on AWS
python -m tests.contract.models FOLDER                                   # write the models for the last two
""",
        ("tests/contract/test_external_servers.py",),
    ),
    Elsewhere(
        "docs/models.md",
        "tritonstack dev double --port 8080\n",
        ("tests/cli/local/test_dev.py",),
    ),
    Elsewhere(
        "docs/runbook.md",
        "tritonstack history minilm-embedding\n",
        ("tests/cli/operate/test_history.py",),
    ),
    Elsewhere(
        "docs/runbook.md",
        "tritonstack inspect minilm-embedding\n",
        ("tests/cli/builds/test_inspect.py",),
    ),
    Elsewhere(
        "docs/tuning.md",
        """\
tritonstack tune minilm-embedding                               # highest throughput of 64 users
tritonstack tune minilm-embedding --users 32 --p99 80           # the same, with a p99 of at most 80 ms
tritonstack tune judge --rate 50 --texts reviews.txt --write    # lowest p99 at 50 requests per second
tritonstack tune dev reviews --budget 20 --plot reviews.svg     # the model of an endpoint, with its variables
""",
        ("tests/workflows/sizing/test_tune.py",),
    ),
    Elsewhere(
        "examples/README.md",
        """\
tritonstack init my-models --example sentence-embeddings
cd my-models                                    # its README.md is the tutorial
""",
        ("tests/packaging/test_whole_run.py",),
    ),
)
"""Blocks that tests outside of this folder run."""
NOT_RUN = {
    "tritonstack tune judge --rate 50 --texts reviews.txt --write": "it searches a text model for minutes",
    "pytest tests/contract --container IMAGE": "it needs a Docker engine and an image",
}
"""Commands in those blocks that no test runs with these options, and why."""
_PLAIN = ("cd", "cp", "deactivate", "echo", "export", "git", "mkdir", "pip", "rm")
"""Commands around those of this project."""
_PROGRAMS = ("make", "tritonstack")
"""Programs with subcommands."""


def elsewhere(block: Block) -> Elsewhere | None:
    """Return the entry of a block; None if the tests in this folder run it."""
    return next((one for one in RUN_ELSEWHERE if (one.page, one.text) == (block.page, block.text)), None)


def commands(text: str) -> Iterator[Words]:
    """Yield the program or subcommand and the options of each command of a block.

    Arguments and values of options are left out: tests have their own names and folders.
    """
    for line in re.sub(r'eval "\$\((.*?)\)"', r"\1", text).splitlines():
        for part in line.split("&&"):
            words = shlex.split(part, comments=True)
            if words and words[0] not in _PLAIN and shlex.join(words) not in NOT_RUN:
                yield frozenset(_meant(words))


def _meant(words: list[str]) -> Iterator[str]:
    program, *rest = words
    if program in _PROGRAMS:
        yield rest[0]
    elif program == "python":
        yield from rest[:2]
    else:
        yield program
    yield from (word for word in rest if re.fullmatch(r"--?[a-z][\w-]*", word))


def run_by(file: Path) -> list[Words]:
    """Return the words of each command line in a test: its lists, tuples, calls, and texts."""
    text = file.read_text(encoding="utf-8")
    if file.name == "Makefile":
        return [frozenset((target,)) for target in re.findall(r"^([\w-]+):", text, flags=re.MULTILINE)]
    tree = ast.parse(text)
    assigned: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            assigned.setdefault(node.targets[0].id, set()).update(_words_of(node.value, {}))
    kinds = (ast.List, ast.Tuple, ast.Call, ast.JoinedStr, ast.Constant)
    lines = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [frozenset(_words_of(node, assigned)) for node in lines]


def _words_of(node: ast.expr, assigned: dict[str, set[str]]) -> Iterator[str]:
    """Yield the words that are directly in an expression, not those of expressions within."""
    match node:
        case (
            ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Call(args=parts) | ast.JoinedStr(values=parts)
        ):
            for part in parts:
                yield from _word_of(part, assigned)
        case ast.Constant(value=str() as text) if text.startswith("tritonstack "):
            yield from text.split()


def _word_of(part: ast.expr, assigned: dict[str, set[str]]) -> Iterator[str]:
    match part.value if isinstance(part, ast.Starred) else part:
        case ast.Constant(value=str() as text):
            yield from text.replace('"', " ").split()
        case ast.Name(id=name):
            yield from assigned.get(name, ())


def not_run(one: Elsewhere) -> list[Words]:
    """Return the commands of a block that no command line of its tests has with the same options."""
    known = [words for file in one.files for words in run_by(ROOT / file)]
    return [words for words in commands(one.text) if not any(words <= line for line in known)]
