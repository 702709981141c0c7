"""The gate `performance` suggests load tests that pass it, however many instances run."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from tests.operate.two_accounts import add_prod
from tests.projects import edit
from tritonstack.base.paths import Project
from tritonstack.files.environment.promotion import PerformanceObjective, PromotionSpec
from tritonstack.files.loading import load_workspace
from tritonstack.operate.promote.candidates import performance_requirements
from tritonstack.operate.promote.performance import PerformanceRequirement

TYPE = "instance_type: ml.c7i.xlarge"


def required(
    project: Project, *, rate: float = 40, scaling: str = "", account: str = "222222222222"
) -> PerformanceRequirement:
    add_prod(project, account=account)
    edit(project.environment_file("dev"), TYPE, f"{TYPE}\n    {scaling}" if scaling else TYPE)
    gates = PromotionSpec(
        source="dev", performance={"search": PerformanceObjective(rate_per_instance=rate, p99_ms=250)}
    )
    item: Any = SimpleNamespace(name="minilm", key="cpu")
    source, target = load_workspace(project, "dev"), load_workspace(project, "prod")
    (requirement,) = performance_requirements(gates, item, source, target)
    return requirement


def options_of(measure: str) -> dict[str, str]:
    command = re.search(r"`tritonstack (.*?)`", measure)
    assert command
    words = shlex.split(command[1])
    assert words[:3] == ["bench", "dev", "search"]
    return dict(pairwise(words))


@pytest.mark.parametrize("rate", [40, 0.1, 33.3, 1 / 3, 123456.7, 1_234_567.5])
@pytest.mark.parametrize("lowest", [1, 3])
def test_the_suggested_rate_is_enough_for_the_lowest_number(project, rate, lowest):
    scaling = f"scaling: {{min_instances: {lowest}, max_instances: {lowest}}}"
    measure = required(project, rate=rate, scaling=scaling).measure
    assert float(options_of(measure)["--rate"]) == pytest.approx(rate * lowest, rel=1e-12)
    assert measure.endswith("--record`")


def test_more_instances_need_more_requests(project):
    scaling = "scaling: {min_instances: 2, max_instances: 5, invocations_per_instance: 600}"
    assert "search --rate 80 --duration 60" in required(project, rate=40, scaling=scaling).measure


def test_the_local_cloud_shows_nothing_for_aws(project):
    edit(project.environment_file("dev"), "111111111111", "000000000000")
    requirement = required(project)
    assert requirement.real_instances
    assert requirement.measure.startswith("dev")


def test_the_local_cloud_shows_what_the_local_cloud_requires(project):
    edit(project.environment_file("dev"), "111111111111", "000000000000")
    requirement = required(
        project, account="000000000000", scaling="scaling: {min_instances: 1, max_instances: 1}"
    )
    assert not requirement.real_instances
    assert "search --rate 40 --duration 60" in requirement.measure
