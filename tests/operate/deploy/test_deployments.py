"""A deployment is recorded once, and again as soon as anything about it changes."""

import json
from typing import Any

import pytest

from tests.projects import add_image, edit
from tests.stacks.assemblies import lock_everything
from tritonstack.base.errors import TritonstackError
from tritonstack.base.naming import EVENTS
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.events import Event, TouchedArtifact, TouchedImage
from tritonstack.files.records.lock_writing import add_image_to_lock
from tritonstack.files.records.locks import LockedImage
from tritonstack.operate.deploy.deploy import is_already_recorded, record_deployment
from tritonstack.operate.shared import events
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.events import UNREADABLE_LOAD_TEST, new_event, read_events, record_event

FIRST = TouchedArtifact(model="minilm", target="cpu", digest="a" * 64)
SECOND = TouchedArtifact(model="minilm", target="cpu", digest="b" * 64)
IMAGE = TouchedImage(folder="serving", kind="cpu", digest=f"sha256:{'a' * 64}")


def deployed(at: int = 0, **changes: Any) -> Event:
    facts: dict[str, Any] = {
        "kind": "deployed",
        "environment": "dev",
        "at": f"2026-11-22T08:{at:02}:00Z",
        "by": "Ada",
        "commit": "c" * 40,
        "endpoints": ("one", "two"),
        "artifacts": (FIRST,),
    }
    return Event(**{**facts, **changes})


@pytest.mark.parametrize(
    ("earlier", "recorded"),
    [
        ([], False),
        ([deployed()], True),
        ([deployed(by="Bob")], True),
        ([deployed(commit="d" * 40)], False),
        ([deployed(artifacts=(SECOND,))], False),
        ([deployed(images=(IMAGE,))], False),
        ([deployed(endpoints=("one",))], False),
        ([deployed(artifacts=(SECOND,)), deployed()], False),
        ([deployed(endpoints=("three",)), deployed()], True),
    ],
)
def test_only_the_latest_verdict_on_the_same_endpoints_counts(earlier, *, recorded):
    assert is_already_recorded(deployed(59), earlier) is recorded


def held(cloud: Cloud, project: Project) -> Any:
    edit(project.environment_file("dev"), "1" * 12, cloud.account)
    edit(project.environment_file("dev"), "eu-west-1", cloud.region)
    workspace = lock_everything(project, "dev")
    cloud.client("s3").create_bucket(Bucket=workspace.spec.artifact_bucket)
    return workspace


def test_a_deploy_that_changes_nothing_writes_nothing(cloud, project):
    workspace = held(cloud, project)
    bucket = workspace.spec.artifact_bucket
    written = record_deployment(cloud, workspace, ["search"])
    assert record_deployment(cloud, workspace, ["search"]) is None
    assert read_events(cloud, bucket) == [written]
    assert [artifact.model for artifact in written.artifacts] == ["minilm"]


def test_deploys_and_verdicts_record_the_endpoints_images(cloud, project):
    add_image(project.root, "serving")
    edit(project.environment_file("dev"), "    model: minilm\n", "    model: minilm\n    image: serving\n")
    workspace = held(cloud, project)
    locked = LockedImage(digest=IMAGE.digest, tag="1")
    add_image_to_lock(project.lock_file("dev"), "serving", "cpu", locked)
    add_image_to_lock(project.lock_file("dev"), "serving", "gpu", locked)
    workspace = load_workspace(project, "dev")
    written = record_deployment(cloud, workspace, ["search"])
    assert written.images == (IMAGE,)
    assert new_event("verified", workspace, endpoints=["search"]).images == (IMAGE,)


def test_only_the_requested_number_of_events_is_fetched(cloud, project, monkeypatch):
    bucket = held(cloud, project).spec.artifact_bucket
    for at in range(8):
        record_event(cloud, bucket, deployed(at, kind="verified" if at % 2 else "deployed"))
    record_event(cloud, bucket, deployed().model_copy(update={"at": "2026-11-22T08:06:00.500000Z"}))
    fetched, real = list[str](), events._parsed

    def counted(body: bytes, origin: str) -> Event:
        fetched.append(origin)
        return real(body, origin)

    monkeypatch.setattr(events, "_parsed", counted)

    def minutes(**filters: Any) -> list[str]:
        fetched.clear()
        times = [event.at[14:] for event in read_events(cloud, bucket, **filters)]
        assert len(fetched) == len(times)
        return times

    since = "2026-11-22T08:06:00Z"
    assert minutes(kinds=["verified"]) == ["01:00Z", "03:00Z", "05:00Z", "07:00Z"]
    assert sorted(minutes(since=since)) == ["06:00.500000Z", "06:00Z", "07:00Z"]
    assert minutes(kinds=["verified"], since=since) == ["07:00Z"]
    assert len(minutes()) == 9


def test_an_invalid_event_is_named_and_nothing_is_skipped(cloud, project):
    bucket = held(cloud, project).spec.artifact_bucket
    for at in range(4):
        record_event(cloud, bucket, deployed(at))
    key = f"{EVENTS}2026-11-22T08:01:30Z-deployed-00000000.json"
    cloud.client("s3").put_object(Bucket=bucket, Key=key, Body=b"{}")
    with pytest.raises(TritonstackError, match=f"{key} is not a valid"):
        read_events(cloud, bucket)


OF_ANOTHER_VERSION = [
    pytest.param({"instance_type": "ml.m5.large", "instances": 2, "levels": []}, id="earlier"),
    pytest.param(
        {"instance_type": "ml.m5.large", "real_instances": True, "levels": [], "rounds": 3}, id="later"
    ),
    pytest.param({"instance_type": "ml.m5.large", "real_instances": True, "levels": [{}]}, id="level"),
]


@pytest.mark.parametrize("load_test", OF_ANOTHER_VERSION)
def test_a_load_test_of_another_version_is_ignored_with_a_note(cloud, project, load_test):
    bucket = held(cloud, project).spec.artifact_bucket
    record_event(cloud, bucket, deployed(2))
    event = deployed(1, kind="load-tested", note="20 per second")
    body = {**json.loads(event.to_json()), "load_test": load_test}
    cloud.client("s3").put_object(Bucket=bucket, Key=event.key, Body=json.dumps(body).encode())
    events = read_events(cloud, bucket)
    assert events == [
        event.model_copy(update={"note": f"20 per second; {UNREADABLE_LOAD_TEST}"}),
        deployed(2),
    ]


@pytest.mark.parametrize("change", [{"kind": "drained"}, {"reason": "a field of a later version"}])
def test_an_event_of_another_version_is_an_error_also_with_a_load_test(cloud, project, change):
    bucket = held(cloud, project).spec.artifact_bucket
    for load_test in ({}, {"load_test": {"instances": 2}}):
        body = {**json.loads(deployed().to_json()), **change, **load_test}
        cloud.client("s3").put_object(Bucket=bucket, Key=deployed().key, Body=json.dumps(body).encode())
        with pytest.raises(TritonstackError, match="valid event") as caught:
            read_events(cloud, bucket)
        assert caught.value.code == "TS410"
