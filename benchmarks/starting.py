"""Time the start of a served tokenizer, including unpacking its environment and importing its packages.

    python -m benchmarks.starting [--rounds 3]

A real Triton loads the tokenizer of the text recipes; the times come from its log. Triton starts every Python
model twice, and waits a second in between, unless `--disable-auto-complete-config` is set. An empty
model, measured as well, has the same wait.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from model_build.environments.packing import build_environment, installed_requirement
from model_build.layouts.steps import TOKENIZER_CODE
from tritonstack.base.paths import find_project
from tritonstack.runtime import TritonInstallation, TritonServer, find_installation

VOCABULARY = 30_000
CONFIG = """
backend: "python"
max_batch_size: 8
input { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "input_ids" data_type: TYPE_INT64 dims: [ -1 ] }
output { name: "attention_mask" data_type: TYPE_INT64 dims: [ -1 ] }
instance_group { kind: KIND_CPU count: 1 }
"""
WITH_ENVIRONMENT = """
parameters { key: "EXECUTION_ENV_PATH" value: { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }
"""
NOTHING = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
WITHOUT_COMPLETION = {"SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--disable-auto-complete-config"}
LOADING, STARTING, READY = "loading: ", "TRITONBACKEND_ModelInstanceInitialize", "successfully loaded"
TIMED = re.compile(rf'[IWE]\d{{4}} (\d\d):(\d\d):(\d\d\.\d+) .*"({LOADING}|{STARTING}|{READY})')


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=3, help="number of starts, of which the best is reported"
    )
    rounds = parser.parse_args().rounds
    project = find_project(Path.cwd())
    installation = find_installation(home=project.server_dir)
    table = Table("what", "total", "its process", title="a Python model, loaded by Triton")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tokenizer = write_tokenizer(folder / "models", project.cache_dir)
        nothing = write_model(folder / "nothing", "nothing", NOTHING)
        for name, repository, variables in (
            ("tokenizer", tokenizer, WITHOUT_COMPLETION),
            ("tokenizer, auto-completed configuration", tokenizer, {}),
            ("empty model, auto-completed configuration", nothing, {}),
        ):
            times = [
                start(installation, repository, folder / f"{name}-{number}", variables)
                for number in range(rounds)
            ]
            table.add_row(name, *(f"{min(column):.2f} s" for column in zip(*times, strict=True)))
    Console().print(table)
    Console().print("limit: the served tokenizer starts within 1 s")


def start(
    installation: TritonInstallation, repository: Path, state: Path, variables: dict[str, str]
) -> tuple[float, float]:
    """Return the seconds until the model is ready, since Triton's load and since its process started."""
    with TritonServer.start(
        installation=installation, model_root=repository, environment=variables, state_dir=state
    ) as server:
        server.wait_ready(timeout_s=60)
        lines = filter(None, map(TIMED.match, server.log_path.read_text().splitlines()))
    moments = [(line[4], int(line[1]) * 3600 + int(line[2]) * 60 + float(line[3])) for line in lines]
    first = dict(reversed(moments))
    return first[READY] - first[LOADING], first[READY] - first[STARTING]


def write_tokenizer(repository: Path, cache: Path) -> Path:
    """Write the tokenizer of the text recipes with a vocabulary of typical size."""
    write_model(repository, "tokenizer", TOKENIZER_CODE.read_text(), WITH_ENVIRONMENT)
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # noqa: S106 - a word, no secret
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    library = sorted(str(file) for file in Path(json.__file__).parents[1].glob("*.py"))
    tokenizer.train(
        library,
        trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=["[UNK]"], show_progress=False),
    )
    tokenizer.save(str(repository / "tokenizer/1/tokenizer.json"))
    build_environment(
        [installed_requirement("tokenizers")],
        file=repository / "tokenizer/env.tar.gz",
        cache_dir=cache,
        dependencies=False,
    )
    return repository


def write_model(repository: Path, name: str, code: str, extra: str = "") -> Path:
    """Write a repository with one Python model."""
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "1/model.py").write_text(code)
    (folder / "config.pbtxt").write_text(CONFIG + extra)
    return repository


if __name__ == "__main__":
    main()
