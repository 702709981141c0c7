"""Searches with a real Triton: what is searched, measured, resumed, proposed, and left behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from model_build.repository.config import read_config
from tests.projects import edit
from tests.python_models import python_model
from tritonstack.base.errors import InvalidFilesError, TritonstackError, UsageError
from tritonstack.base.paths import Project, find_project
from tritonstack.cli.main import run
from tritonstack.operations.tuning.objectives import Objective
from tritonstack.workflows import NullReporter, Session, TuneOptions, plan_tuning, tune
from tritonstack.workflows.reporter import SilentStep
from tritonstack.workflows.sizing.tune import FileChange, write_changes
from tritonstack.workflows.sizing.tune_options import read_texts
from tritonstack.workflows.sizing.tune_planning import TunePlan
from tritonstack.workflows.sizing.tuned_runs import configure
from tritonstack.workflows.sizing.tuned_settings import parts

EXAMPLE = find_project(Path(__file__)).root / "tritonstack/project/scaffold/examples/python"
OPTIONS = TuneOptions(users=8, seconds=1.0, most_runs=6)
PIPELINE = """\
name: pipeline
description: Doubles twice.
recipe:
  kind: ensemble
  steps:
    - {model: double, outputs: {y: between}}
    - {model: again, inputs: {x: between}}
test_inputs:
  - inputs: {x: [1.0, 2.0]}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    """A project with a Python model that sleeps far longer per request than it computes, and this server."""
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    (tmp_path / "cdk.json").write_text("{}")
    (tmp_path / ".tritonstack").mkdir()
    (tmp_path / ".tritonstack/server").symlink_to(find_project(Path(__file__)).server_dir)
    (tmp_path / "models/double/model.py").write_text(python_model("x * 2", "time.sleep(0.05)"))
    return Project(tmp_path)


class Interrupting(NullReporter):
    """Ctrl-C before a run; notes are kept."""

    def __init__(self, before: str = "never") -> None:
        self.before, self.notes = before, list[str]()

    def note(self, text: str) -> None:
        self.notes.append(text)

    @contextmanager
    def step(self, title: str, *, label: str = "") -> Iterator[SilentStep]:
        if title.startswith(self.before):
            raise KeyboardInterrupt
        yield SilentStep()


def planned(shop: Project, options: TuneOptions = OPTIONS) -> TunePlan:
    return plan_tuning(Session(shop), "double", options=options)


@pytest.mark.e2e
def test_an_interrupted_search_resumes_finds_more_instances_and_leaves_nothing(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    before = shop.model_file("double").read_text()
    plan = planned(shop)
    assert [setting.field for setting in plan.settings] == ["instances", "queue_delay_us", "max_batch"]
    with pytest.raises(KeyboardInterrupt):
        tune(Session(shop, Interrupting("run 3")), plan)
    assert len((plan.folder / "runs.jsonl").read_text().splitlines()) == 2
    with (plan.folder / "runs.jsonl").open("a") as stream:
        stream.write('{"choice": {"dou')  # it was killed while it wrote

    reporter = Interrupting()
    result = tune(Session(shop, reporter), planned(shop), curve=False)
    assert reporter.notes == ["resumed after 2 runs"]
    assert not (shop.state_dir / "tuning").exists()
    assert len(result.runs) <= 6
    assert result.tuned.answered_per_s > result.now.answered_per_s
    assert shop.model_file("double").read_text() == before
    assert "+triton: {instances: [{count: " in result.diff()
    assert "<svg" in result.chart()
    assert json.loads(json.dumps(result.to_json()))["tuned"]["answered_per_s"] > 0

    write_changes(Session(shop), result)
    after = shop.model_file("double").read_text()
    assert after.startswith(before.rstrip())
    assert run(["--project", str(shop.root), "validate"]) == 0
    capsys.readouterr()


@pytest.mark.e2e
def test_the_command_prints_runs_curves_and_a_diff(
    shop: Project, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    chart = tmp_path / "chart.svg"
    command = ["tune", "double", "--users", "4", "--duration", "1", "--runs", "2", "--plot", str(chart)]
    assert run(["--project", str(shop.root), *command]) == 0
    output = capsys.readouterr()
    assert "as it is" in output.out
    assert "now" in output.out
    assert "2 runs of a grid of" in output.err
    assert "searched: double: instances: 1, 2" in output.err
    assert "<svg" in chart.read_text()
    assert run(["--project", str(shop.root), "--json", *command[:-2], "--p99", "1"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["meets"], found["server"], len(found["runs"])) == (False, "embedded", 2)


@pytest.mark.e2e
def test_an_endpoint_has_threads_and_only_what_transfers_is_searched(shop: Project) -> None:
    edit(shop.environment_file("local"), "ml.c7i.large", "ml.c7i.large")
    options = TuneOptions(users=2, seconds=1.0, cores=1)
    (endpoint,) = Session(shop).workspace("local").spec.endpoints
    plan = plan_tuning(Session(shop), "local", endpoint, options=options)
    assert [setting.field for setting in plan.settings] == ["queue_delay_us", "max_batch"]
    skipped = {one.field: one.reason for one in plan.skipped}
    assert skipped["OMP_NUM_THREADS"] == skipped["instances"] == "the endpoint has other cores"
    assert "2 vCPUs, the server here 1 cores" in " ".join(plan.notes)
    with pytest.raises(UsageError) as caught:
        plan_tuning(Session(shop), "local", endpoint, model="else")
    assert caught.value.code == "TS903"


@pytest.mark.soak
def test_members_are_searched_as_their_files_are_built(shop: Project) -> None:
    models = shop.root / "models"
    shutil.copytree(models / "double", models / "again")
    edit(models / "again/model.yaml", "name: double", "name: again")
    (models / "pipeline").mkdir()
    (models / "pipeline/model.yaml").write_text(PIPELINE)
    plan = plan_tuning(Session(shop), "pipeline", options=OPTIONS)
    fields = ("instances", "queue_delay_us", "max_batch")
    assert {setting.dimension.name for setting in plan.settings} == {
        f"{model}: {field}" for model in ("double", "again") for field in fields
    }
    form = plan.builder.form(())
    found = parts(form.repository, "pipeline", plan.models)
    assert {model: part.folder for model, part in found.items()} == {"double": "double", "again": "again"}
    # What is written into config.pbtxt is what a build makes of the edited file.
    wanted = {"instances": 4, "queue_delay_us": 1000, "max_batch": 64}
    own = [(setting, wanted[setting.field]) for setting in plan.settings if setting.model == "again"]
    built = plan.builder.form(tuple(own))
    for setting, value in own:
        configure(form.repository, found, setting, value)
    for folder in ("again", "double"):
        ours, theirs = (read_config(one.repository / folder / "config.pbtxt") for one in (form, built))
        assert ours == theirs


def test_options_that_exclude_each_other_and_files_that_cannot_be_read(
    shop: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--project", str(shop.root), "tune", "double"]
    assert run([*command, "--p99", "10", "--rate", "5"]) == 2
    assert "exclude each other" in capsys.readouterr().err
    assert run([*command, "--model", "double"]) == 2
    assert run([*command, "--cores", "1000"]) == 2
    assert run(["--project", str(shop.root), "tune", "local", "nowhere"]) == 2
    capsys.readouterr()
    empty = tmp_path / "texts.txt"
    empty.write_text("\n")
    for file in (empty, tmp_path / "missing.txt"):
        with pytest.raises(UsageError) as caught:
            read_texts(file)
        assert caught.value.code == "TS913"
    empty.write_text("one\n\ntwo\n")
    assert read_texts(empty) == ("one", "two")


@pytest.mark.e2e
def test_a_model_without_anything_to_search_or_with_errors_is_rejected(shop: Project) -> None:
    file = shop.model_file("double")
    edit(file, "recipe: {kind: python}", "recipe: {kind: python}\ntriton: {config: own.pbtxt}")
    (file.parent / "own.pbtxt").write_text("instance_group { count: 1 kind: KIND_CPU }\n")
    with pytest.raises(TritonstackError, match=r"own\.pbtxt has them, and stays as it is") as caught:
        planned(shop)
    assert caught.value.code == "TS916"


@pytest.mark.e2e
def test_files_that_would_be_invalid_are_restored(shop: Project) -> None:
    plan = planned(shop, TuneOptions(users=2, seconds=1.0, most_runs=2, objective=Objective(rate=20.0)))
    result = tune(Session(shop), plan, curve=False)
    before = shop.model_file("double").read_text()
    change = FileChange("models/double/model.yaml", before, before.replace("kind: python", "kind: none"))
    with pytest.raises(InvalidFilesError):
        write_changes(Session(shop), replace(result, changes=(change,)))
    assert shop.model_file("double").read_text() == before
