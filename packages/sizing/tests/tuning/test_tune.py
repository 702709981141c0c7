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
from tritonstack import NullReporter, Session
from tritonstack.base.errors import InvalidFilesError, TritonstackError, UsageError
from tritonstack.base.paths import Project, find_project
from tritonstack.base.results import document
from tritonstack.cli.main import run
from tritonstack.operate.invoke.request_inputs import GivenInputs
from tritonstack.operate.shared.session import SilentStep
from tritonstack_sizing import TuneOptions, end_search, plan_tuning, tune
from tritonstack_sizing.tuning.planning import TunePlan, read_texts
from tritonstack_sizing.tuning.search_folders import (
    SearchRunningError,
    only_search,
    searches_dir,
)
from tritonstack_sizing.tuning.settings import parts
from tritonstack_sizing.tuning.spaces import Objective
from tritonstack_sizing.tuning.tune import FileChange, changes_of, write_changes
from tritonstack_sizing.tuning.variants import configure

EXAMPLE = find_project(Path(__file__)).root / "tritonstack/files/scaffold/examples/python"
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


SHARED = """\
batching: {max_batch: &one 1}
triton: {instances: [{count: *one}]}
"""
"""Two settings that cannot change alone."""


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


def left_behind(shop: Project) -> list[Path]:
    """Return the folders of searches."""
    return [*searches_dir(shop).iterdir()] if searches_dir(shop).exists() else []


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
    assert len((plan.folder / "runs.jsonl").read_text().splitlines()) == 1 + 2
    with (plan.folder / "runs.jsonl").open("a") as stream:
        stream.write('{"choice": {"dou')  # it was killed while it wrote

    reporter = Interrupting()
    plan = planned(shop)
    result = tune(Session(shop, reporter), plan, curve=False)
    assert reporter.notes == ["resumed after 2 runs"]
    assert end_search(Session(shop), plan).removed
    assert left_behind(shop) == []
    assert len(result.runs) <= 6
    assert result.tuned.answered_per_s > result.now.answered_per_s
    space = plan.search.space
    (instances,) = (dimension.name for dimension in space.dimensions if "instances" in dimension.name)
    assert result.tuned.settings[instances] > space.values(space.start)[instances]
    assert shop.model_file("double").read_text() == before
    assert "+triton: {instances: [{count: " in result.diff
    assert "<svg" in result.chart()
    assert document(result)["tuned"]["answered_per_s"] > 0

    write_changes(Session(shop), plan, result.changes)
    after = shop.model_file("double").read_text()
    assert after.startswith(before.rstrip())
    assert run(["--project", str(shop.root), "validate"]) == 0
    capsys.readouterr()


@pytest.mark.e2e
def test_an_endpoint_has_threads_and_only_what_transfers_is_searched(shop: Project) -> None:
    edit(shop.environment_file("local"), "ml.c7i.large", "ml.c7i.large")
    options = TuneOptions(users=2, seconds=1.0, cores=1)
    (endpoint,) = Session(shop).workspace("local").spec.endpoints
    plan = plan_tuning(Session(shop), "local", endpoint, options=options)
    assert [setting.field for setting in plan.settings] == ["queue_delay_us", "max_batch"]
    assert {"OMP_NUM_THREADS", "instances"} <= {setting.field for setting in plan.skipped}
    assert "2 vCPUs" in " ".join(plan.notes)
    with pytest.raises(UsageError) as caught:
        plan_tuning(Session(shop), "local", endpoint, model="else")
    assert caught.value.code == "TS903"


@pytest.mark.soak
def test_a_result_that_cannot_be_written_is_printed_and_kept(
    shop: Project, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = shop.model_file("double")
    before = f"{file.read_text()}{SHARED}"
    file.write_text(before)
    command = ["--project", str(shop.root), "--json", "tune", "double", "--users", "8", "--duration", "1"]
    assert run([*command, "--plot", str(tmp_path / "missing" / "chart.svg")]) == 2
    assert "missing" in capsys.readouterr().err
    assert left_behind(shop) == []  # nothing was built or measured

    assert run([*command, "--runs", "6", "--write"]) == 2
    output = capsys.readouterr()
    result = json.loads(output.out)
    assert result["tuned"]["settings"] != result["now"]["settings"]
    assert result["diff"] == ""
    assert "models/double/model.yaml:" in result["uneditable"]
    assert "error: " in output.err
    assert file.read_text() == before
    assert len(left_behind(shop)) == 1

    assert run([*command, "--runs", "6"]) == 0
    output = capsys.readouterr()
    assert f"resumed after {len(result['runs'])} runs" in output.err
    assert "best: double: " in output.err
    assert json.loads(output.out)["runs"] == result["runs"]
    assert left_behind(shop) == []


@pytest.mark.e2e
def test_a_search_keeps_what_others_have_recorded(shop: Project, tmp_path: Path) -> None:
    data = tmp_path / "one.json"
    data.write_text('{"x": [1.0, 2.0]}')
    options = replace(OPTIONS, inputs=GivenInputs((), data))
    plan = planned(shop, options)
    with pytest.raises(KeyboardInterrupt):
        tune(Session(shop, Interrupting("run 2")), plan)
    recorded = (plan.folder / "runs.jsonl").read_text()

    with only_search(shop):
        for action in (lambda: planned(shop, options), lambda: tune(Session(shop), plan)):
            with pytest.raises(SearchRunningError):
                action()
        assert not end_search(Session(shop), plan).removed
    (built,) = plan.folder.glob("forms/*/built.json")
    built.write_text(built.read_text().replace("artifacts", "missing"))
    with pytest.raises(TritonstackError):
        planned(shop, options)
    assert (plan.folder / "runs.jsonl").read_text() == recorded

    data.write_text('{"x": [2.0, 3.0]}')
    other = planned(shop, options)
    assert other.folder != plan.folder
    assert (plan.folder / "runs.jsonl").read_text() == recorded


@pytest.mark.soak
def test_an_endpoint_is_searched_and_its_files_are_written(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = shop.environment_file("local")
    environment.write_bytes(environment.read_bytes().replace(b"\n", b"\r\n"))
    plan = plan_tuning(Session(shop), "local", "double", options=replace(OPTIONS, cores=2))
    last = tuple(len(dimension.values) - 1 for dimension in plan.search.space.dimensions)
    changes = tuple(changes_of(Session(shop), plan, last))
    assert [change.name for change in changes] == ["models/double/model.yaml", "environments/local.yaml"]
    write_changes(Session(shop), plan, changes)
    (spec,) = Session(shop).workspace("local").spec.endpoints.values()
    assert spec.environment == {"OMP_NUM_THREADS": "2"}
    assert environment.read_bytes().count(b"\n") == environment.read_bytes().count(b"\r\n")

    command = ["--project", str(shop.root), "tune", "local", "double", "--users", "8", "--duration", "1"]
    chart = shop.root / "double.svg"
    assert (
        run([*command, "--cores", "2", "--runs", "4", "--budget", "20", "--plot", str(chart), "--write"]) == 0
    )
    assert "<svg" in chart.read_text()
    output = capsys.readouterr()
    assert "searched: endpoint: OMP_NUM_THREADS: 1, 2" in output.err
    assert "as it is" in output.out
    assert [folder.name for folder in left_behind(shop)] == [plan.folder.name]


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
    members = parts(form.repository, "pipeline", plan.models)
    assert {model: part.folder for model, part in members.items()} == {"double": "double", "again": "again"}
    # What is written into config.pbtxt is what a build makes of the edited file.
    values = {"instances": 4, "queue_delay_us": 1000, "max_batch": 64}
    own = [(setting, values[setting.field]) for setting in plan.settings if setting.model == "again"]
    built = plan.builder.form(tuple(own))
    for setting, value in own:
        configure(form.repository, members, setting, value)
    for folder in ("again", "double"):
        ours, theirs = (read_config(each.repository / folder / "config.pbtxt") for each in (form, built))
        assert ours == theirs


def test_options_that_exclude_each_other_and_files_that_cannot_be_read(
    shop: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--project", str(shop.root), "tune", "double"]
    assert run([*command, "--p99", "10", "--rate", "5"]) == 2
    assert "exclude each other" in capsys.readouterr().err
    for words in (["double", "--model", "double"], ["double", "--cores", "1000"], ["local", "nowhere"]):
        assert run([*command[:-1], *words]) == 2
    capsys.readouterr()
    empty = tmp_path / "texts.txt"
    empty.write_text("\n")
    for file in (empty, tmp_path / "missing.txt"):
        with pytest.raises(UsageError) as caught:
            read_texts(file)
        assert caught.value.code == "TS912"
    empty.write_text("one\n\ntwo\n")
    assert read_texts(empty) == ("one", "two")


@pytest.mark.e2e
def test_a_model_without_anything_to_search_or_with_errors_is_rejected(shop: Project) -> None:
    file = shop.model_file("double")
    edit(file, "recipe: {kind: python}", "recipe: {kind: python}\ntriton: {config: own.pbtxt}")
    (file.parent / "own.pbtxt").write_text("instance_group { count: 1 kind: KIND_CPU }\n")
    with pytest.raises(TritonstackError, match=r"own\.pbtxt") as caught:
        planned(shop)
    assert caught.value.code == "TS916"


@pytest.mark.e2e
def test_files_that_would_be_invalid_are_restored(shop: Project) -> None:
    plan = planned(shop, TuneOptions(users=2, seconds=1.0, most_runs=2, objective=Objective(rate=20.0)))
    assert tune(Session(shop), plan, curve=False).now.usable
    before = shop.model_file("double").read_text()
    change = FileChange("models/double/model.yaml", before, before.replace("kind: python", "kind: none"))
    with pytest.raises(InvalidFilesError):
        write_changes(Session(shop), plan, [change])
    assert shop.model_file("double").read_text() == before
