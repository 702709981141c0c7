"""The limits of servers: memory of this machine and its container, instance types, and volumes."""

from tritonstack_local.sagemaker.servers import limits
from tritonstack_local.sagemaker.servers.limits import Limits, limits_of, volume_bytes

MIB, GIB = 2**20, 2**30


def test_limits_of_an_instance_type_and_volume():
    found = limits_of("ml.c5.large", volume_gb=None, loaded_models=None)
    assert found == Limits(memory_bytes=4 * GIB, volume_bytes=30 * GIB, loaded_models=None)
    assert limits_of("ml.m5.xlarge", volume_gb=100, loaded_models=5) == Limits(16 * GIB, 100 * GIB, 5)


def test_an_instance_with_local_disks_uses_the_machines_disk():
    assert volume_bytes("ml.g5.xlarge", None) is None
    assert volume_bytes("ml.g5.xlarge", 5) == 5 * GIB


def test_an_unknown_instance_type_uses_the_machines_memory():
    found = limits_of("ml.new.xlarge", volume_gb=None, loaded_models=None)
    assert found == Limits(memory_bytes=None, volume_bytes=30 * GIB)
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
