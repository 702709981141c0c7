"""The limits of servers: memory of this machine and its container, instance types, and volumes."""

import pytest

from tritonstack_local.sagemaker import dependencies as limits
from tritonstack_local.sagemaker.dependencies import Limits, limits_of, volume_bytes

MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("instance_type", "volume_gb", "memory", "volume"),
    [
        ("ml.c5.large", None, 4 * GIB, 30 * GIB),
        ("ml.m5.xlarge", 100, 16 * GIB, 100 * GIB),
        ("ml.g5.xlarge", None, 16 * GIB, None),
        ("ml.g5.xlarge", 5, 16 * GIB, 5 * GIB),
        ("ml.new.xlarge", None, None, 30 * GIB),
    ],
)
def test_limits_of_an_instance_type_and_volume(instance_type, volume_gb, memory, volume):
    assert limits_of(instance_type, loaded_models=5) == Limits(memory_bytes=memory, loaded_models=5)
    assert volume_bytes(instance_type, volume_gb) == volume


def test_an_unknown_instance_type_uses_the_machines_memory():
    found = limits_of("ml.new.xlarge", loaded_models=None)
    assert not found.is_short_of_memory(held=1 << 60, needed=1)
    assert found.is_short_of_memory(held=0, needed=1 << 60)


def test_free_memory_is_limited_by_the_control_group(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_OWN_GROUP", tmp_path)
    whole = limits.free_memory()
    assert whole > 10 * MIB
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text(f"{100 * MIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {10 * MIB}\n")
    assert limits.free_memory() > 10 * MIB
    (tmp_path / "memory.max").write_text(f"{95 * MIB}\n")
    assert limits.free_memory() == 5 * MIB
    (tmp_path / "memory.max").write_text(f"{80 * MIB}\n")
    assert limits.free_memory() == 0
