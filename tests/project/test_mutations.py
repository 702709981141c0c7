"""For any damage to a project file, `validate` quickly names line, field, and remedy."""

from __future__ import annotations

import pytest

from tools import mutate_files


@pytest.mark.parametrize(("seed", "count"), [(7, 250), pytest.param(1, 2000, marks=pytest.mark.soak)])
def test_random_mutations_are_accepted_or_explained(seed: int, count: int) -> None:
    tallies = mutate_files.run(count, seed)
    assert list(tallies) == ["environment", "template", "lock", "model", "delivery"]
    for kind, tally in tallies.items():
        assert tally.tried == count // 5
        assert tally.rejected > tally.tried / 2
        assert mutate_files.is_fine(tally), (kind, str(tally), tally.crashed, tally.incomplete)
