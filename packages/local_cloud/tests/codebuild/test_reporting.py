"""Lines of a build are sent to CloudWatch Logs within its limits, and never hold up the build."""

import pytest
from botocore.exceptions import ClientError

from tritonstack_local.codebuild import reporting
from tritonstack_local.codebuild.reporting import LogStreamWriter


class Logs:
    """CloudWatch Logs that records its calls, or fails."""

    def __init__(self, failure=None):
        self.batches = []
        self.failure = failure

    def create_log_group(self, **_):
        raise ClientError({"Error": {"Code": "ResourceAlreadyExistsException"}}, "CreateLogGroup")

    def create_log_stream(self, **_):
        pass

    def put_log_events(self, *, logEvents, **_):  # noqa: N803 - boto3's name
        if self.failure is not None:
            raise self.failure
        self.batches.append(logEvents)


def write(logs, lines):
    writer = LogStreamWriter(client=logs, location={"groupName": "g", "streamName": "s"})
    for line in lines:
        writer.write(line)
    writer.close()


def test_calls_stay_within_the_limits(monkeypatch):
    monkeypatch.setattr(reporting, "_PAUSE_S", 3600)
    logs = Logs()
    lines = [str(number) for number in range(21_000)] + ["\N{EURO SIGN}" * 60_000] * 20
    write(logs, lines)
    assert [event["message"] for batch in logs.batches for event in batch] == [f"{line}\n" for line in lines]
    for batch in logs.batches:
        assert len(batch) <= 10_000
        assert sum(len(event["message"].encode()) + 26 for event in batch) <= 1 << 20


@pytest.mark.parametrize("failure", [OSError("no route"), RuntimeError("surprise")])
def test_a_build_goes_on_without_its_log(failure):
    write(Logs(failure), ["a line"] * 5_000)
