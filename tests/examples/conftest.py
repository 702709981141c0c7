"""Time for the tutorials: several builds and deployments each."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Each command of a tutorial has a time limit of its own."""
    if item.name == "test_its_readme_runs":
        item.add_marker(pytest.mark.timeout(1800))
