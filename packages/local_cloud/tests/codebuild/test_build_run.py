"""The sources and phases of a build, and how they are reported."""

import json
from datetime import timedelta

import pytest

from packages.local_cloud.tests.codebuild.conftest import kinds, phase, spec, why

ALL = [
    *("SUBMITTED", "QUEUED", "PROVISIONING", "DOWNLOAD_SOURCE", "INSTALL", "PRE_BUILD", "BUILD"),
    *("POST_BUILD", "UPLOAD_ARTIFACTS", "FINALIZING", "COMPLETED"),
]


def test_a_build_runs_and_reports_all_phases(account):
    made = account.project(spec("echo hello"))
    started = account.start()
    assert started["buildStatus"] == "IN_PROGRESS"
    assert not started["buildComplete"]
    build = account.ended(started)
    number = build["id"].partition(":")[2]
    arn = f"arn:aws:codebuild:eu-west-1:{account.id}:build/{account.name}:{number}"
    assert (build["arn"], build["buildNumber"], build["projectName"]) == (arn, 1, account.name)
    assert (build["buildStatus"], build["currentPhase"], build["buildComplete"]) == (
        "SUCCEEDED",
        "COMPLETED",
        True,
    )
    assert kinds(build) == ALL
    for item in build["phases"][:-1]:
        assert item["phaseStatus"] == "SUCCEEDED"
        took = item["endTime"] - item["startTime"]
        assert timedelta() <= took < timedelta(minutes=1)
        assert abs(item["durationInSeconds"] - took.total_seconds()) <= 1
    assert why(build, "BUILD") == ("", "")
    assert "contexts" not in phase(build, "QUEUED")
    assert set(build["phases"][-1]) == {"phaseType", "startTime"}
    assert build["endTime"] >= build["startTime"]
    assert build["environment"] == made["environment"]
    assert build["serviceRole"] == account.role
    assert (build["timeoutInMinutes"], build["queuedTimeoutInMinutes"]) == (60, 480)
    assert build["logs"]["groupName"] == f"/aws/codebuild/{account.name}"
    assert build["logs"]["streamName"] == number
    assert build["logs"]["cloudWatchLogsArn"].endswith(
        f":log-group:/aws/codebuild/{account.name}:log-stream:{number}"
    )
    assert account.said(build) == ["hello"]


def test_phases_run_in_order_and_share_state(account):
    phases = {
        "install": {"commands": "mkdir deep && cd deep"},
        "pre_build": {"commands": ["NAME=set", "export OTHER=\"two words\nand 'lines'\""]},
        "post_build": {"commands": ["echo $NAME", 'echo "$OTHER"', 'echo "${PWD##*/}"']},
    }
    account.project(spec("unset HOME; echo build", **phases))
    build = account.ended(account.start())
    assert build["buildStatus"] == "SUCCEEDED"
    assert account.said(build) == ["build", "set", "two words", "and 'lines'", "deep"]


def test_a_failed_command_ends_its_phase_and_post_build_still_runs(account):
    post = {"commands": ["echo post $CODEBUILD_BUILD_SUCCEEDING"]}
    account.project(spec("echo $CODEBUILD_BUILD_SUCCEEDING", "exit 7", "echo never", post_build=post))
    build = account.ended(account.start())
    assert build["buildStatus"] == "FAILED"
    code, message = why(build, "BUILD")
    assert (code, message.endswith("exit status 7")) == ("COMMAND_EXECUTION_ERROR", True)
    assert kinds(build) == ALL
    assert phase(build, "POST_BUILD")["phaseStatus"] == "SUCCEEDED"
    assert account.said(build) == ["1", "post 0"]
    log = "\n".join(account.log(build))
    for part in ("exit 7 exit status 7", "BUILD State: FAILED", f"{code} Message: {message}"):
        assert part in log


@pytest.mark.parametrize(
    ("failing", "on_failure", "skipped"),
    [
        ("install", None, {"PRE_BUILD", "BUILD", "POST_BUILD", "UPLOAD_ARTIFACTS"}),
        ("pre_build", "ABORT", {"BUILD", "POST_BUILD", "UPLOAD_ARTIFACTS"}),
        ("pre_build", "CONTINUE", set()),
        ("build", "ABORT", {"POST_BUILD", "UPLOAD_ARTIFACTS"}),
        ("build", "CONTINUE", set()),
        ("post_build", None, set()),
    ],
)
def test_phases_after_a_failed_phase(account, failing, on_failure, skipped):
    failed = {"commands": ["false"], **({"on-failure": on_failure} if on_failure else {})}
    account.project(spec("true", **{failing: failed}))
    build = account.ended(account.start())
    assert build["buildStatus"] == "FAILED"
    assert phase(build, failing.upper())["phaseStatus"] == "FAILED"
    expected = [kind for kind in ALL if kind not in skipped]
    # Without an upload, the build ends immediately.
    assert kinds(build) == expected


ALIAS_BOMB = "b0: &b0 [x, x]\n" + "".join(f"b{n}: &b{n} [*b{n - 1}, *b{n - 1}]\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 0.2\nphases: {build: [", "line"),
        ("version: 0.2\nenv: {}\n", "phases: Field required"),
        ("- a\n- b: c\n", "dictionary"),
        ("version: 0.2\nphases: {build: {comands: [a]}}\n", "phases.build.comands"),
        ("version: 0.1\nphases: {build: {commands: [a]}}\n", "version"),
        ("version: 0.2\nphases: {build: {on-failure: RETRY-2, commands: [a]}}\n", "phases.build.on-failure"),
        ("version: 0.2\nbatch: {}\nphases: {}\n", "batch"),
        ("version: 0.2\nartifacts: {files: a}\nphases: {}\n", "artifacts"),
        ("version: 0.2\nenv: {secrets-manager: {A: s}}\nphases: {}\n", "env.secrets-manager"),
        ("version: 0.2\n" + ALIAS_BOMB, "the aliases of this file repeat more than"),
        ("version: 0.2\nphases: {build: {finally: [a]}}\n", "phases.build.finally"),
    ],
)
def test_an_invalid_buildspec_fails_the_build_before_it_runs(account, text, message):
    account.project(text)
    build = account.ended(account.start())
    assert build["buildStatus"] == "FAILED"
    code, words = why(build, "DOWNLOAD_SOURCE")
    assert code == "YAML_FILE_ERROR"
    assert message in words
    assert kinds(build)[-2:] == ["DOWNLOAD_SOURCE", "COMPLETED"]


def test_an_archive_is_unpacked_with_its_modes(account):
    files = {"run.sh": "echo ran\n", "deep/er/file": "x"}
    location = account.upload("a.zip", files, modes={"run.sh": 0o755})
    buildspec = json.dumps(spec("./run.sh", "cat deep/er/file"))
    account.project(source={"type": "S3", "location": location, "buildspec": buildspec})
    build = account.ended(account.start())
    assert account.said(build) == ["ran", "x"]
    assert build["resolvedSourceVersion"] == f"arn:aws:s3:::{location}"
    other = account.upload("b.zip", {"specs/other": "x"})
    build = account.ended(
        account.start(
            sourceLocationOverride=f"arn:aws:s3:::{other}", buildspecOverride=json.dumps(spec("ls -R"))
        )
    )
    assert account.said(build) == [".:", "specs", " ", "./specs:", "other"]
    assert build["source"]["location"] == f"arn:aws:s3:::{other}"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (None, "key x.zip, error: NoSuchKey"),
        ({"../outside": "x"}, "../outside"),
        ("no archive", "File is not a zip file"),
        ({"file": "x", "file/below": "y"}, "Not a directory"),
        ({"n" * 256: "x"}, "File name too long"),
    ],
)
def test_an_unavailable_source_fails_the_build(account, files, message):
    if isinstance(files, dict):
        account.upload("x.zip", files)
    elif files is not None:
        account.client("s3").put_object(Bucket=account.bucket, Key="x.zip", Body=files.encode())
    source = {"type": "S3", "location": f"{account.bucket}/x.zip", "buildspec": json.dumps(spec("true"))}
    account.project(source=source)
    build = account.ended(account.start())
    assert build["buildStatus"] == "FAILED"
    code, words = why(build, "DOWNLOAD_SOURCE")
    assert code == "CLIENT_ERROR"
    assert message in words
