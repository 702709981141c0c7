"""Optional packages plug in by entry points."""

import importlib.metadata
from importlib.metadata import EntryPoint

import pytest

from tritonstack.base.error_kinds import MissingPackageError
from tritonstack.base.extras import install_command, wing_entry

GROUP = "tritonstack.commands"


def entry(module: str) -> EntryPoint:
    return EntryPoint("bench", f"{module}.commands.bench:bench", GROUP)


@pytest.mark.parametrize("others", [[], [entry("stranger")]], ids=["nothing", "another package"])
def test_a_missing_package_is_named_with_the_way_to_install_it(monkeypatch, others):
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: others)
    with pytest.raises(MissingPackageError, match="tritonstack-sizing") as raised:
        wing_entry(GROUP, "bench", package="tritonstack_sizing")
    assert install_command("tritonstack_sizing") in (raised.value.remedy or "")


def test_no_other_package_takes_the_place_of_a_wing(monkeypatch):
    own = entry("tritonstack_sizing")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [entry("stranger"), own])
    assert wing_entry(GROUP, "bench", package="tritonstack_sizing") is own
