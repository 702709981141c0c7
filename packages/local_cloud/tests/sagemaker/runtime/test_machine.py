"""What the machine has left, and the container that this cloud may run in."""

from tritonstack_local.sagemaker.runtime import machine

MIB = 1 << 20


def test_a_control_group_that_is_nearly_full_leaves_less_than_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_OWN_GROUP", tmp_path)
    whole = machine.free_memory()
    assert whole > 10 * MIB
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text(f"{100 * MIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {10 * MIB}\n")
    assert machine.free_memory() > 10 * MIB
    (tmp_path / "memory.max").write_text(f"{95 * MIB}\n")
    assert machine.free_memory() == 5 * MIB
    (tmp_path / "memory.max").write_text(f"{80 * MIB}\n")
    assert machine.free_memory() == 0
