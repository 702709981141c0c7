"""What counts as better, and as within the limits."""

import math

import pytest

from tritonstack_sizing.tuning.spaces import Measured, Objective

FAST, SLOW = Measured(200, 10, 40), Measured(100, 20, 30)


def test_throughput_or_latency_is_to_be_better():
    assert Objective().gain(FAST) > Objective().gain(SLOW)
    assert Objective(rate=50).gain(SLOW) > Objective(rate=50).gain(FAST)


@pytest.mark.parametrize(
    ("objective", "figures", "meets"),
    [
        (Objective(), FAST, True),
        (Objective(p99_ms=35), FAST, False),
        (Objective(p99_ms=35), SLOW, True),
        (Objective(rate=100), SLOW, True),
        (Objective(rate=110), SLOW, False),
        (Objective(), Measured(200, 10, 40, failed_share=0.01), False),
        (Objective(), Measured(0, math.nan, math.nan, violation="killed"), False),
    ],
)
def test_limits(objective, figures, meets):
    assert objective.meets(figures) is meets
    assert figures.violation or (objective.slack(figures) >= 0) is meets
