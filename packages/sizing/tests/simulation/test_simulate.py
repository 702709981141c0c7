"""`tritonstack simulate` on a project: results, proposals, history, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest

from packages.sizing.tests.simulation.test_serving import level, saved
from tests.operate.strict_aws import checked
from tests.operate.verify.smoke_environment import manifest_of, put, workspace_of
from tests.projects import edit
from tritonstack import Session
from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack.base.paths import Project
from tritonstack.base.results import document
from tritonstack.cli.main import run
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.manifests import LatencyReport
from tritonstack.operate.shared.aws import Cloud, cloud_of
from tritonstack_sizing import SimulationOptions, simulate
from tritonstack_sizing.loads.bench import Period
from tritonstack_sizing.simulation.options import parse_objective

SCALING = """\
    scaling:
      min_instances: 1   # quiet
      max_instances: 4
      invocations_per_instance: 2000   # measured
"""
ENDPOINTS = f"""\
  search:
    kind: ensemble
    model: minilm
    instance_type: ml.c7i.xlarge
{SCALING}prices: {{ml.c7i.xlarge: 0.2}}
"""
SPIKE = "seconds,rate\n600,15\n300,100\n600,15\n"
"""One instance answers 40 per second."""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = workspace_of(tmp_path, ENDPOINTS).project
    (tmp_path / "one.json").write_text(saved(*(level(users) for users in (1, 2, 4))).text())
    (tmp_path / "spike.csv").write_text(SPIKE)
    return project


def recorded(project: Project, monkeypatch: pytest.MonkeyPatch, instances: list[int], each: float) -> Any:
    """Simulate recorded minutes with so many instances, and requests per instance."""
    begin = datetime(2026, 11, 23, 9, tzinfo=UTC)
    cloud = CloudWithMetrics(Recorded(begin, [each * count for count in instances], instances))
    monkeypatch.setattr(Session, "cloud", lambda *_, **__: cloud)
    period = Period(begin, begin + timedelta(minutes=len(instances)))
    return partial(simulated, project, trace=None, history=period)


def simulated(project: Project, endpoint: str = "search", **options: Any) -> Any:
    usual = {"trace": project.root / "spike.csv", "bench": project.root / "one.json"}
    return simulate(Session(project), "dev", endpoint, options=SimulationOptions(**{**usual, **options}))


def command(project: Project, *words: str) -> int:
    files = ["--trace", str(project.root / "spike.csv"), "--bench", str(project.root / "one.json")]
    return run(["--project", str(project.root), "simulate", "dev", "search", *files, *words])


def test_the_present_scaling_is_simulated_without_an_account(project: Project) -> None:
    result = simulated(project)
    assert result.capacity_per_s == pytest.approx(40, rel=0.03)
    assert result.curve.startswith("one.json, ")
    assert result.starting_s == pytest.approx(240 + 20 + 1, abs=0.1)
    assert result.run.is_followed
    assert result.run.lost > 5000
    assert result.proposal is None
    assert "<svg" in result.chart()


def test_a_proposal_is_printed_as_a_diff_with_both_costs_and_written(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project.environment_file("dev")
    before = file.read_text()
    assert command(project, "--objective", "p99=500ms,lost=0", "--plot", str(project.root / "a.svg")) == 0
    printed = capsys.readouterr()
    assert file.read_text() == before
    assert "--- a/environments/dev.yaml\n+++ b/environments/dev.yaml\n" in printed.out
    assert "-      min_instances: 1   # quiet" in printed.out
    assert "   # quiet" in printed.out.split("+++")[1]
    rows = {line.split()[0]: line.split() for line in printed.out.splitlines() if line.strip()}
    assert int(rows["present"][1].replace(",", "")) > 5000
    assert rows["proposed"][1] == "0"
    assert float(rows["proposed"][-1].replace(",", "")) > float(rows["present"][-1].replace(",", ""))
    assert "proposed" in (project.root / "a.svg").read_text()
    assert command(project, "--objective", "p99=500ms,lost=0", "--write") == 0
    scaling = load_workspace(project, "dev").spec.endpoints["search"].scaling
    assert scaling.min_instances > 1
    capsys.readouterr()
    # Now the present scaling holds the objective at the lowest cost.
    assert command(project, "--objective", "p99=500ms,lost=0") == 0
    assert "is the cheapest" in capsys.readouterr().err


def test_the_manifest_is_used_without_a_load_test(
    project: Project, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(project.environment_file("dev"), "0" * 12, account)
    workspace = load_workspace(project, "dev")
    cloud = cloud_of(workspace.spec, variables={})
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=workspace.spec.artifact_bucket)
    monkeypatch.setattr(Session, "cloud", lambda *_, **__: cloud)
    with pytest.raises(TritonstackError, match="'minilm' is not") as caught:
        simulated(project, bench=None)
    assert caught.value.code == "TS914"
    latency = (LatencyReport(batch=1, requests=9, p50_ms=25.0, p99_ms=30.0),)
    put(cloud, workspace, "minilm", "manifest.json", manifest_of("minilm", latency=latency).to_json())
    result = simulated(project, bench=None)
    assert result.capacity_per_s == pytest.approx(40)
    assert result.curve.startswith("manifest of minilm")


class Recorded:
    """CloudWatch's GetMetricData for a known course, checked with botocore's model."""

    def __init__(self, begin: datetime, requests: list[float], instances: list[int]) -> None:
        self.values = {
            "requests": requests,
            "errors": [0.0] * len(requests),
            "shares": [count / number for count, number in zip(requests, instances, strict=True)],
            "machines": [],
            "p50": [50_000.0] * len(requests),
            "p99": [60_000.0] * len(requests),
        }
        self.begin = begin

    def get_paginator(self, name: str) -> Any:
        assert name == "get_metric_data"
        return self

    def paginate(self, **fields: Any) -> list[dict[str, Any]]:
        checked("cloudwatch", "GetMetricData", fields)
        assert fields["MetricDataQueries"][0]["MetricStat"]["Metric"]["MetricName"] == "Invocations"
        results = [
            {
                "Id": query["Id"],
                "Timestamps": [
                    self.begin + timedelta(minutes=number) for number in range(len(self.values[query["Id"]]))
                ],
                "Values": self.values[query["Id"]],
            }
            for query in fields["MetricDataQueries"]
        ]
        return [{"MetricDataResults": results[:3]}, {"MetricDataResults": results[3:]}]


class CloudWithMetrics(Cloud):
    """A cloud whose CloudWatch has a known course."""

    def __init__(self, recorded: Recorded) -> None:
        super().__init__("1" * 12, "us-east-1", {})
        object.__setattr__(self, "recorded", recorded)

    def client(self, service: str) -> Any:
        assert service == "cloudwatch"
        return self.recorded  # type: ignore[attr-defined]


def test_a_simulation_is_compared_with_recorded_minutes(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = datetime(2026, 11, 23, 9, tzinfo=UTC)
    requests = [900.0] * 10 + [3600.0] * 30
    # Three high minutes, a minute until they are published, and 261 s to start: minute 10 + 3 + 1 + 4.4. The
    # metric of that minute is still that of one instance for a half, which adds another one.
    instances = [1] * 18 + [2] * 6 + [3] * 16
    cloud = CloudWithMetrics(Recorded(begin, requests, instances))
    monkeypatch.setattr(Session, "cloud", lambda *_, **__: cloud)
    period = Period(begin + timedelta(seconds=20), begin + timedelta(minutes=40))
    result = simulated(project, trace=None, history=period)
    test = result.history
    assert result.run.requests == sum(requests)
    assert test.minutes_compared == 40
    assert test.instances_within_one == 1.0
    assert abs(test.instances_mean_difference) < 0.15
    assert test.p99_ms == 60.0
    assert document(test)["recorded"][0]["instances"] == 1
    words = ["simulate", "dev", "search", "--bench", str(project.root / "one.json"), "--history"]
    assert run(["--project", str(project.root), *words, "2026-11-23T09:00/40m"]) == 0
    assert "in 100% of 40 minutes" in capsys.readouterr().err
    empty = CloudWithMetrics(Recorded(begin, [], []))
    monkeypatch.setattr(Session, "cloud", lambda *_, **__: empty)
    with pytest.raises(TritonstackError, match="tritonstack-dev-search") as caught:
        simulated(project, trace=None, history=period)
    assert caught.value.code == "TS914"
    with pytest.raises(TritonstackError, match="more than the 15"):
        simulated(project, trace=None, history=Period(begin, begin + timedelta(days=20)))


def test_the_present_and_the_proposed_scaling_start_from_the_recorded_instances(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Three instances for 20 minutes, and one for 40: scaling in costs less than any fixed number.
    course = recorded(project, monkeypatch, [3] * 20 + [1] * 40, each=1800.0)
    result = course(objective=parse_objective("p99=500ms,lost=0"))
    assert result.run.slices[0].in_service == result.proposal.run.slices[0].in_service == 3
    assert result.proposal.run.slices[-1].in_service == 1
    assert "min_instances" not in result.proposal.settings


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--objective", "p99=fast"], "TS901", "--objective fast: "),
        (["--objective", "lost=3"], "TS901", "--objective lost=3: "),
        (["--no-capacity", "2h"], "TS901", "--no-capacity 2h: "),
        (["--rollout-at", "noon"], "TS901", "--rollout-at noon: "),
        (["--begin", "monday"], "TS901", "--begin monday: "),
        (["--popularity", "minilm=0.5"], "TS908", "--popularity"),
        (["--popularity", "minilm"], "TS901", "--popularity minilm: "),
        (["--history", "2026-11-23T09:00/40m"], "TS901", "--trace and --history"),
        (["--write"], "TS901", "--objective"),
        (["--begin", "1492-10-12"], "TS901", "1970 to 2199"),
    ],
)
def test_options_that_are_refused(
    project: Project, capsys: pytest.CaptureFixture[str], words: list[str], code: str, message: str
) -> None:
    assert command(project, *words) == 2
    printed = capsys.readouterr().err
    assert f"error[{code}]" in printed
    assert message in printed


@pytest.mark.parametrize("instance", ["ml.c7i.xlarge", "ml.c7i.2xlarge", "ml.c7i.xlarge.old"])
@pytest.mark.parametrize("real_instances", [True, False, None])
def test_a_curve_of_another_machine_is_noted_whatever_its_file_is_called(
    project: Project, instance: str, real_instances: bool | None
) -> None:
    file = project.root / "measured-on-ml.c7i.xlarge.json"
    runs = saved(*(level(users) for users in (1, 2, 4)))
    file.write_text(
        replace(runs, instance=instance, real_instances=real_instances, machine="2 x EPYC").text()
    )
    is_same = (instance, real_instances) == ("ml.c7i.xlarge", True)
    result = simulated(project, bench=file)
    assert any("service curve" in note for note in result.notes) == (not is_same)
    assert result.curve.endswith(f"measured on {instance}") == (real_instances is True)


def test_loads_and_curves_that_are_refused(project: Project) -> None:
    with pytest.raises(UsageError, match="no load"):
        simulated(project, trace=None)
    with pytest.raises(UsageError, match="no endpoint 'serach'"):
        simulated(project, "serach")
    (project.root / "long.csv").write_text(f"seconds,rate\n{40 * 86_400},0.01\n")
    with pytest.raises(UsageError, match="40 days"):
        simulated(project, trace=project.root / "long.csv")
    (project.root / "bad.csv").write_text("minute,count\n")
    with pytest.raises(TritonstackError, match=r"bad\.csv:1: "):
        simulated(project, trace=project.root / "bad.csv")
