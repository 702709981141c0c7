"""Volumes and timeouts follow from the sizes of artifacts, within SageMaker's limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stacks import deployment as sizing
from tritonstack.files.records.locks import LockedArtifact

GB = 1024**3
SIZES = st.integers(min_value=1, max_value=300 * GB)


def artifact(archive_bytes: int = 1, unpacked_bytes: int = 1) -> LockedArtifact:
    return LockedArtifact(
        digest="ab" * 32, spec_hash="cd" * 32, archive_bytes=archive_bytes, unpacked_bytes=unpacked_bytes
    )


@given(archive_bytes=SIZES, unpacked_bytes=SIZES)
def test_volume_fits_the_archive_and_two_copies_of_its_files(archive_bytes, unpacked_bytes):
    volume = sizing.volume_gb(artifact(archive_bytes, unpacked_bytes))
    assert volume >= 30
    assert volume * GB > archive_bytes + 2 * unpacked_bytes
    # 10 GB to spare, and 1 GB for rounding up: each further gigabyte costs money on every instance.
    assert volume <= max(30, (archive_bytes + 2 * unpacked_bytes) // GB + 11)


@given(sizes=st.lists(SIZES, min_size=1, max_size=50))
def test_the_multi_model_volume_fits_its_models_up_to_the_limit(sizes):
    volume = sizing.multi_model_volume_gb([artifact(size, size) for size in sizes])
    assert volume in (32, 64, 128, 256, 512)
    assert volume == 512 or volume * GB > 3 * sum(sizes)
    # The next smaller volume, less 10 GB to spare and 1 GB for rounding up, does not fit them.
    assert volume == 32 or (volume // 2 - 11) * GB < 3 * sum(sizes)


@given(archive_bytes=SIZES, unpacked_bytes=SIZES)
def test_time_limits_are_minutes_within_sagemakers_range(archive_bytes, unpacked_bytes):
    locked = artifact(archive_bytes, unpacked_bytes)
    for limit in (sizing.download_timeout_s(locked), sizing.startup_timeout_s(locked)):
        assert 60 <= limit <= 3600
        assert limit % 60 == 0


@pytest.mark.parametrize(("megabytes", "limit"), [(1, 360), (1_500, 360), (15_000, 900), (900_000, 3600)])
def test_download_time_assumes_a_fifth_of_volume_throughput(megabytes, limit):
    assert sizing.download_timeout_s(artifact(archive_bytes=megabytes * 1_000_000)) == limit
