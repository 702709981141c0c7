"""The project that tests of requests use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operate.invoke.invoked_site import Site


@pytest.fixture
def site(tmp_path: Path, account: str, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, account, monkeypatch)
