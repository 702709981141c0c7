"""examples/session-recommender: its README from training to an empty account."""

import pytest

from tests.examples.running import passed

pytestmark = pytest.mark.soak


def test_its_readme_runs(tmp_path):
    result = passed("session-recommender", tmp_path)
    assert [(model.model, model.kind) for model in result.models] == [
        ("next-book", "multi-model, triton"),
        ("next-film", "multi-model, triton"),
    ]
    assert all(model.max_absolute_error is not None for model in result.models)
    assert max(model.max_absolute_error or 0 for model in result.models) < 1e-4
