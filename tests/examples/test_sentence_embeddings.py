"""examples/sentence-embeddings: its README from training to an empty account."""

import pytest

from tests.examples.running import passed

pytestmark = pytest.mark.soak


def test_its_readme_runs(tmp_path):
    (mpnet,) = passed("sentence-embeddings", tmp_path).models
    assert mpnet.kind == "ensemble, text-embedding"
    assert mpnet.min_cosine is not None
    assert mpnet.min_cosine > 0.9999
