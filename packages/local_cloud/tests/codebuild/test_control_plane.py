"""Projects and builds through boto3: stored, listed, and rejected."""

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.codebuild.conftest import REGION, an_environment, spec

TRUE = spec("true")
SECRET = {"name": "A", "value": "s", "type": "SECRETS_MANAGER"}


def error_of(call, **fields):
    with pytest.raises(ClientError) as caught:
        call(**fields)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_a_project_is_stored_with_codebuilds_defaults(account):
    made = account.project(TRUE, description="d", tags=[{"key": "a", "value": "b"}])
    arn = f"arn:aws:codebuild:{REGION}:{account.id}:project/{account.name}"
    assert (made["name"], made["arn"], made["description"]) == (account.name, arn, "d")
    assert made["tags"] == [{"key": "a", "value": "b"}]
    assert (made["timeoutInMinutes"], made["queuedTimeoutInMinutes"]) == (60, 480)
    assert made["cache"] == {"type": "NO_CACHE"}
    assert made["environment"]["privilegedMode"] is False
    assert made["encryptionKey"] == f"arn:aws:kms:{REGION}:{account.id}:alias/aws/s3"
    assert made["created"] == made["lastModified"]
    found = account.codebuild.batch_get_projects(names=[account.name, arn, "other"])
    assert found["projects"] == [made, made]
    assert found["projectsNotFound"] == ["other"]


def test_an_update_changes_only_the_given_fields(account):
    made = account.project(TRUE, concurrentBuildLimit=2)
    new = account.codebuild.update_project(name=account.name, description="new", concurrentBuildLimit=-1)[
        "project"
    ]
    assert new["description"] == "new"
    assert "concurrentBuildLimit" not in new
    assert new["source"] == made["source"]
    assert new["lastModified"] > new["created"]
    code, _ = error_of(account.codebuild.update_project, name="other")
    assert code == "ResourceNotFoundException"


def test_projects_are_listed_and_deleted(mine):
    for name in ("beta", "alpha"):
        mine.project(TRUE, name=name)
    assert mine.codebuild.list_projects()["projects"] == ["alpha", "beta"]
    assert [item["id"] for item in mine.app.inventory() if item["account"] == mine.id] == [
        "beta",
        "alpha",
    ]
    mine.codebuild.delete_project(name="beta")
    mine.codebuild.delete_project(name="beta")
    assert mine.codebuild.list_projects()["projects"] == ["alpha"]


def test_project_names_are_unique(account):
    account.project(TRUE)
    code, message = error_of(account.project, buildspec=TRUE)
    assert code == "ResourceAlreadyExistsException"
    assert message.endswith(f":project/{account.name}")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"source": {"type": "NO_SOURCE"}}, "buildspec"),
        ({"source": {"type": "S3", "location": "b/k.zip", "buildspec": "other.yml"}}, "buildspec"),
        ({"source": {"type": "NO_SOURCE", "location": "b/k", "buildspec": "a: b"}}, "location"),
        ({"source": {"type": "S3"}}, "location"),
        ({"source": {"type": "GITHUB", "location": "x"}}, "ProjectSource.type=GITHUB"),
        ({"source": {"type": "S3", "location": "b/k", "insecureSsl": True}}, "ProjectSource.insecureSsl"),
        ({"environment": an_environment(type="WINDOWS_CONTAINER")}, "WINDOWS_CONTAINER"),
        ({"environment": an_environment(certificate="b/c")}, "ProjectEnvironment.certificate"),
        ({"artifacts": {"type": "S3", "location": "b"}}, "ProjectArtifacts.type=S3"),
        ({"environment": an_environment(environmentVariables=[SECRET])}, "EnvironmentVariable.type=SECRETS"),
        ({"logsConfig": {"s3Logs": {"status": "ENABLED", "location": "x"}}}, "LogsConfig.s3Logs"),
        ({"badgeEnabled": True}, "CreateProject.badgeEnabled"),
        ({"concurrentBuildLimit": 0}, "concurrent build limit"),
        ({"secondaryArtifacts": [{"type": "S3", "location": "b"}]}, "CreateProject.secondaryArtifacts"),
    ],
)
def test_rejected_requests(account, fields, named):
    code, words = error_of(account.project, buildspec=TRUE, **fields)
    assert code == "InvalidInputException"
    assert named in words


def test_an_update_is_rejected_like_a_creation(account):
    account.project(TRUE, cache={"type": "NO_CACHE"}, secondarySources=[], badgeEnabled=False)
    account.codebuild.update_project(name=account.name, queuedTimeoutInMinutes=5, secondarySources=[])
    code, words = error_of(account.codebuild.update_project, name=account.name, badgeEnabled=True)
    assert (code, "CreateProject.badgeEnabled" in words) == ("InvalidInputException", True)
    code, words = error_of(account.codebuild.list_projects, sortBy="NAME")
    assert (code, "ListProjects.sortBy" in words) == ("InvalidInputException", True)


def test_requests_are_validated_by_the_service_model(account):
    code, words = error_of(account.project, buildspec=TRUE, timeoutInMinutes=9999)
    assert code == "ValidationException"
    assert "'9999' at 'timeoutInMinutes'" in words
    code, words = error_of(account.codebuild.create_webhook, projectName=account.name)
    assert code == "UnknownOperationException"
    assert "CreateWebhook" in words


def test_an_idempotency_token_returns_the_same_build(account):
    account.project(TRUE)
    first = account.start(idempotencyToken="t")
    assert account.start(idempotencyToken="t")["id"] == first["id"]
    second = account.start(idempotencyToken="u")
    listed = account.codebuild.list_builds_for_project(projectName=account.name)["ids"]
    assert listed == [second["id"], first["id"]]
    code, words = error_of(
        account.codebuild.start_build, projectName=account.name, idempotencyToken="t", imageOverride="other"
    )
    assert code == "InvalidInputException"
    assert "parameter mismatch" in words


def test_overrides_are_reported_by_the_build(account):
    account.project(TRUE)
    build = account.start(timeoutInMinutesOverride=9, imageOverride="mine:1")
    assert (build["timeoutInMinutes"], build["environment"]["image"]) == (9, "mine:1")
    assert account.codebuild.batch_get_projects(names=[account.name])["projects"][0]["timeoutInMinutes"] == 60
    code, words = error_of(account.codebuild.start_build, projectName=account.name, debugSessionEnabled=True)
    assert (code, "StartBuild.debugSessionEnabled" in words) == ("InvalidInputException", True)
