"""What an instance of a multi-model endpoint may hold, by its type and its volume."""

from tritonstack_local.sagemaker.multi_model import volume_bytes
from tritonstack_local.sagemaker.multi_model.limits import Limits, limits_of

GIB = 2**30


def test_the_instance_type_and_the_volume_are_the_limits():
    limits = limits_of("ml.c5.large", volume_gb=None, loaded_models=None)
    assert limits == Limits(memory_bytes=4 * GIB, volume_bytes=30 * GIB, loaded_models=None)
    assert limits_of("ml.m5.xlarge", volume_gb=100, loaded_models=5) == Limits(16 * GIB, 100 * GIB, 5)


def test_an_instance_with_disks_of_its_own_has_the_machines():
    assert volume_bytes("ml.g5.xlarge", None) is None
    assert volume_bytes("ml.g5.xlarge", 5) == 5 * GIB


def test_a_type_that_is_not_known_has_the_machines_memory():
    limits = limits_of("ml.new.xlarge", volume_gb=None, loaded_models=None)
    assert limits == Limits(memory_bytes=None, volume_bytes=30 * GIB)
    assert not limits.is_short_of_memory(held=1 << 60, needed=1)
    assert limits.is_short_of_memory(held=0, needed=1 << 60)
