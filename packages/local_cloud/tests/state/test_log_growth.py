"""The size of a cloud does not follow the lines that are written to its logs."""

import time
from pathlib import Path

import pytest

from packages.local_cloud.tests.state.cloud_process import CloudProcess
from tritonstack_local.cloud_folder import read_address
from tritonstack_local.process import stop
from tritonstack_local.state.log_files import MOST_SEGMENTS, SEGMENT_BYTES

pytestmark = pytest.mark.soak
BATCHES = 400
MIB = 1 << 20


def most_memory(pid):
    """Return the largest resident size so far, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def test_four_hundred_thousand_lines(tmp_path):
    cloud = CloudProcess(tmp_path / "cloud")
    pid, logs = read_address(cloud.folder).pid, cloud.account.client("logs")
    stream = {"logGroupName": "g", "logStreamName": "s"}
    logs.create_log_group(logGroupName="g")
    logs.create_log_stream(**stream)
    before = most_memory(pid)
    for batch in range(BATCHES):
        now = int(time.time() * 1000)
        events = [{"timestamp": now, "message": f"{batch} {line} {'x' * 200}"} for line in range(1000)]
        logs.put_log_events(**stream, logEvents=events)
    state = cloud.folder / "state"
    assert sum(path.stat().st_size for path in state.glob("snapshot*")) < 2 * MIB
    kept = sum(path.stat().st_size for path in (state / "logs").rglob("*") if path.is_file())
    assert 32 * MIB < kept < (MOST_SEGMENTS + 1) * SEGMENT_BYTES
    assert most_memory(pid) - before < 250 * MIB
    page = logs.get_log_events(**stream)
    assert page["events"][-1]["message"].startswith(f"{BATCHES - 1} 999 ")
    stop(state_dir=cloud.folder)
