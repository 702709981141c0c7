"""Dashboards of an endpoint and of an environment, as plain values; their limits and sums."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.constructs.metric_math import evaluate
from tests.constructs.monitored_endpoints import COMPONENT, COMPONENTS, LOCATION, monitored, options, variant
from tritonstack.constructs.monitoring.alarm_plan import endpoint_alarms
from tritonstack.constructs.monitoring.endpoint_dashboard import endpoint_dashboard_body
from tritonstack.constructs.monitoring.environment_dashboard import (
    DashboardEndpoint,
    environment_dashboard_bodies,
)
from tritonstack.constructs.monitoring.monitored import Monitored, MonitoredVariant
from tritonstack.files.endpoint.endpoint import Alarms

PRICE = 1.408
Body = dict[str, Any]


def priced(name: str = "main", **more: Any) -> MonitoredVariant:
    return variant(name, "ml.g5.12xlarge", **{"price_per_hour": PRICE} | more)


def body(endpoint: Monitored, **settings: Any) -> Body:
    names = [alarm.name for alarm in endpoint_alarms(endpoint, Alarms())]
    return endpoint_dashboard_body(
        endpoint, options=options(**settings), alarm_names=names, location=LOCATION
    )


def charts(dashboard: Body) -> dict[str, dict[str, Any]]:
    """Return the charts' properties by title."""
    return {
        widget["properties"]["title"]: widget["properties"]
        for widget in dashboard["widgets"]
        if widget["type"] == "metric"
    }


def look(entry: list[Any]) -> dict[str, Any]:
    """Return how a line of a chart is drawn, and its id."""
    entry_options: dict[str, Any] = entry[-1]
    return entry_options


def metrics_of(chart: dict[str, Any]) -> Iterator[list[Any]]:
    """Return the metrics that a chart reads, visible or not."""
    return (entry for entry in chart["metrics"] if "expression" not in look(entry))


def shown(chart: dict[str, Any]) -> list[str]:
    return [look(entry)["label"] for entry in chart["metrics"] if look(entry).get("visible", True)]


def computed(chart: dict[str, Any], label: str, **values: float | None) -> float | None:
    """Return the value of a line if the metrics have these values over five minutes."""
    (expression,) = [
        look(entry)["expression"]
        for entry in chart["metrics"]
        if look(entry)["label"] == label and "expression" in look(entry)
    ]
    ids = {look(entry)["id"] for entry in metrics_of(chart) if "id" in look(entry)}
    assert set(values) <= ids
    return evaluate(expression, dict.fromkeys(ids) | values)


def assert_valid(dashboard: Body) -> None:
    """Check CloudWatch's rules: limits, ids, a grid of 24 columns without overlaps."""
    assert len(dashboard["widgets"]) <= 500
    count = 0
    taken: Counter[tuple[int, int]] = Counter()
    for widget in dashboard["widgets"]:
        assert 0 <= widget["x"] < 24
        assert 1 <= widget["width"] <= 24 - widget["x"]
        taken.update(
            (x, y)
            for x in range(widget["x"], widget["x"] + widget["width"])
            for y in range(widget["y"], widget["y"] + widget["height"])
        )
        properties = widget["properties"]
        if widget["type"] == "alarm":
            assert 1 <= len(properties["alarms"]) <= 100
        if widget["type"] == "metric":
            assert 1 <= len(properties["metrics"]) <= 500
            ids = [look(entry)["id"] for entry in properties["metrics"] if "id" in look(entry)]
            assert len(ids) == len(set(ids))
            assert all(name[0].islower() and name.replace("_", "").isalnum() for name in ids)
            count += len(list(metrics_of(properties)))
    assert count <= 2500
    assert max(taken.values()) == 1


EVERY_KIND = {
    "plain": (monitored(), {}),
    "gpu": (monitored(priced()), {}),
    "challenger": (monitored(priced(), priced("challenger")), {}),
    "shadow": (monitored(priced(), priced("shadow", shadow=True)), {}),
    "multi-model": (monitored(priced(), multi_model=True), {}),
    "asynchronous": (monitored(priced(), asynchronous=True), {"asynchronous": {}}),
    "components": (monitored(priced(), component=COMPONENT), {"components": COMPONENTS.model_dump()}),
}


@pytest.fixture(scope="module", params=EVERY_KIND)
def any_kind(request: pytest.FixtureRequest) -> Body:
    endpoint, settings = EVERY_KIND[request.param]
    return body(endpoint, **settings)


def test_the_dashboard_of_every_kind_is_valid(any_kind):
    assert_valid(any_kind)


def test_utilization_is_a_percentage_of_the_whole_instance():
    """An ml.g5.12xlarge has 48 vCPUs and four GPUs, whose utilization SageMaker adds up."""
    by_title = charts(body(monitored(priced())))
    assert computed(by_title["CPU utilization"], "main", used0=2400) == 50
    assert computed(by_title["GPU utilization"], "main", used0=200) == 50
    assert computed(by_title["GPU memory utilization"], "main", used0=380) == 95
    assert shown(by_title["Memory utilization"]) == ["main"]


def test_cost_follows_from_the_machines_minutes_and_their_price():
    """Three instances over five minutes, which answer 2,000 requests."""
    by_title = charts(body(monitored(priced())))
    assert computed(by_title["Cost per hour"], "per hour", cost_0=15) == pytest.approx(3 * PRICE)
    thousand = computed(by_title["Cost per 1,000 requests"], "1,000 requests", cost_0=15, cost_calls0=2000)
    assert thousand == pytest.approx(3 * PRICE / 12 / 2000 * 1000)
    assert computed(by_title["Cost per 1,000 requests"], "1,000 requests", cost_0=15) is None


# The environment's


def overseen(count: int, *variants: MonitoredVariant) -> list[DashboardEndpoint]:
    endpoints = []
    for number in range(count):
        endpoint = Monitored(f"shop-dev-search-{number}", variants or (priced(),))
        names = [alarm.name for alarm in endpoint_alarms(endpoint, Alarms())]
        endpoints.append(DashboardEndpoint(f"search-{number}", endpoint, names))
    return endpoints


@pytest.mark.parametrize("count", [0, 1, 100, 240])
def test_one_page_holds_hundreds_of_endpoints(count):
    (page,) = environment_dashboard_bodies("shop-dev", overseen(count), location=LOCATION)
    assert_valid(page)
    names = {
        entry[3]
        for chart in page["widgets"]
        for entry in chart["properties"].get("metrics", [])
        if "expression" not in look(entry)
    }
    assert len(names) == count
    assert page["widgets"][0]["properties"]["markdown"] == "# shop-dev\nAll endpoints"


def test_overflow_is_on_the_next_page():
    three = (priced(), priced("challenger"), priced("shadow", shadow=True))
    pages = environment_dashboard_bodies("shop-dev", overseen(250, *three), location=LOCATION)
    assert len(pages) > 1
    for page in pages:
        assert_valid(page)
    text = json.dumps(pages)
    assert all(f'"shop-dev-search-{number}"' in text for number in range(250))
    assert f"Page 1 of {len(pages)}" in text
