"""The local store and the bucket ignore incomplete artifacts."""

import hashlib
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from model_build.errors import CorruptArtifactError, PublishError
from model_build.store.archive import pack
from model_build.store.artifacts import ArtifactStore, read_manifest, verify_artifact
from model_build.store.publishing import Published, publish
from tests.model_build.written_repositories import manifest_of
from tests.operate.changing_s3 import change_after
from tests.projects import edit
from tritonstack.files.records.examples import EXAMPLES_NAME, Examples
from tritonstack.files.records.manifests import (
    ARCHIVE_NAME,
    DIGEST_NOTE,
    MANIFEST_NAME,
    Manifest,
    parse_manifest,
)

BUCKET = "artifacts"


def keep(root: Path, *texts: str) -> Path:
    """Keep the artifact, which is always the same, with the build's own examples."""
    content = root / "content"
    content.mkdir(exist_ok=True, parents=True)
    (content / "file").write_bytes(b"0123456789" * 500)
    store = ArtifactStore(artifacts_dir=root / "artifacts", model="tiny")
    with store.exclusive() as work:
        packed = pack(content, work / ARCHIVE_NAME)
        examples = Examples(model="tiny", digest=packed.digest, texts=texts)
        kept = manifest_of(packed, model="tiny", examples_sha256=examples.sha256)
        return store.keep(work / ARCHIVE_NAME, examples, kept)


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    return keep(tmp_path, "Hello")


def forget_examples(artifact: Path) -> Path:
    """Leave an artifact as an earlier version did."""
    (artifact / EXAMPLES_NAME).unlink()
    manifest = read_manifest(artifact).model_copy(update={"examples_sha256": None})
    (artifact / MANIFEST_NAME).write_text(manifest.model_dump_json(exclude={"examples_sha256"}))
    return artifact


def test_local_artifact_has_the_bucket_layout(artifact, tmp_path):
    manifest = verify_artifact(artifact)
    assert artifact == tmp_path / "artifacts" / "models" / "tiny" / manifest.digest
    assert {file.name for file in artifact.iterdir()} == {ARCHIVE_NAME, EXAMPLES_NAME, MANIFEST_NAME}
    assert not (tmp_path / "artifacts" / ".building" / "tiny").exists()


def flip(artifact: Path) -> None:
    data = bytearray((artifact / ARCHIVE_NAME).read_bytes())
    data[-1] ^= 1
    (artifact / ARCHIVE_NAME).write_bytes(data)


def cut(artifact: Path) -> None:
    (artifact / ARCHIVE_NAME).write_bytes((artifact / ARCHIVE_NAME).read_bytes()[:-5])


def lose(name: str) -> Callable[[Path], None]:
    return lambda artifact: (artifact / name).unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip, r"checksum .*model\.tar\.gz"),
        (cut, r"model\.tar\.gz .* \d+ bytes"),
        (lose(ARCHIVE_NAME), r"model\.tar\.gz is missing"),
        (lose(MANIFEST_NAME), r"no manifest\.json"),
        (lambda artifact: edit(artifact / MANIFEST_NAME, artifact.name, "f" * 64), "digest ffff"),
        (lose(EXAMPLES_NAME), r"examples\.json is missing"),
        (lambda artifact: edit(artifact / EXAMPLES_NAME, "Hello", "Hallo"), r"checksum .*examples\.json"),
    ],
    ids=["flip", "cut", "no archive", "no manifest", "digest", "no examples", "examples"],
)
def test_damage_is_detected_and_reported(artifact, damage, message):
    damage(artifact)
    with pytest.raises(CorruptArtifactError, match=message) as caught:
        verify_artifact(artifact)
    assert "tritonstack build" in (caught.value.remedy or "")


def test_leftovers_of_a_killed_build_are_deleted(artifact, tmp_path):
    store = ArtifactStore(artifacts_dir=tmp_path / "artifacts", model="tiny")
    (artifact.parent / ("a" * 64)).mkdir()
    (artifact.parent / ("a" * 64) / ARCHIVE_NAME).write_bytes(b"half")
    (tmp_path / "artifacts" / ".building" / "tiny").mkdir()
    (tmp_path / "artifacts" / ".building" / "tiny" / "left").write_text("x")
    with store.exclusive() as work:
        assert list(work.iterdir()) == []
    assert store.folders() == [artifact]
    assert list(artifact.parent.iterdir()) == [artifact]


def test_one_build_of_a_model_at_a_time(tmp_path):
    script = (
        "import sys; from pathlib import Path\n"
        "from model_build.store.artifacts import ArtifactStore\n"
        "with ArtifactStore(artifacts_dir=Path(sys.argv[1]), model='tiny').exclusive() as work:\n"
        "    (work / 'other').write_text(''); print('building', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "building\n"
        other.kill()
        with ArtifactStore(artifacts_dir=tmp_path, model="tiny").exclusive() as work:
            assert list(work.iterdir()) == []


def test_a_second_build_of_the_same_model_waits_with_a_message(tmp_path):
    store = ArtifactStore(artifacts_dir=tmp_path, model="m")
    waiting, order = threading.Event(), []

    def second() -> None:
        with store.exclusive(on_wait=waiting.set) as work:
            order.append("second")
            assert list(work.iterdir()) == []

    thread = threading.Thread(target=second)
    with store.exclusive() as work:
        (work / "half").touch()
        thread.start()
        assert waiting.wait(30)
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]


def test_builds_of_different_models_do_not_wait(tmp_path):
    waits: list[str] = []
    with (
        ArtifactStore(artifacts_dir=tmp_path, model="a").exclusive() as first,
        ArtifactStore(artifacts_dir=tmp_path, model="b").exclusive(
            on_wait=lambda: waits.append("b")
        ) as other,
    ):
        assert first != other
    assert waits == []


@pytest.fixture
def s3(s3: Any) -> Any:
    s3.create_bucket(Bucket=BUCKET)
    return s3


def upload(s3: Any, artifact: Path, **options: str) -> Published:
    return publish(artifact_dir=artifact, bucket=BUCKET, s3_client=s3, **options)


def in_bucket(s3: Any, artifact: Path, name: str) -> bytes:
    key = f"models/tiny/{artifact.name}/{name}"
    body: bytes = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    return body


def put(s3: Any, artifact: Path, name: str, body: bytes) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"models/tiny/{artifact.name}/{name}", Body=body)


def published_manifest(s3: Any, artifact: Path) -> Manifest:
    """Return the manifest in the bucket, which must name the examples there."""
    manifest = parse_manifest(in_bucket(s3, artifact, MANIFEST_NAME), origin="bucket")
    if manifest.examples_sha256:
        assert manifest.examples_sha256 == hashlib.sha256(in_bucket(s3, artifact, EXAMPLES_NAME)).hexdigest()
    return manifest


def test_published_once(artifact, s3):
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    first = upload(s3, artifact)
    second = upload(s3, artifact)
    assert (first.uploaded, second.uploaded) == (True, False)
    assert first.archive_url == f"s3://{BUCKET}/models/tiny/{artifact.name}/model.tar.gz"
    versions = s3.list_object_versions(Bucket=BUCKET)["Versions"]
    names = [EXAMPLES_NAME, MANIFEST_NAME, ARCHIVE_NAME]
    assert sorted(version["Key"].rpartition("/")[2] for version in versions) == names
    assert in_bucket(s3, artifact, EXAMPLES_NAME) == (artifact / EXAMPLES_NAME).read_bytes()
    assert in_bucket(s3, artifact, MANIFEST_NAME) == (artifact / MANIFEST_NAME).read_bytes()
    body = s3.get_object(Bucket=BUCKET, Key=f"{first.prefix}/{ARCHIVE_NAME}")["Body"].read()
    assert body == (artifact / ARCHIVE_NAME).read_bytes()


def test_published_under_a_key(artifact, s3):
    done = upload(s3, artifact, kms_key_id="alias/mine")
    for name in (ARCHIVE_NAME, EXAMPLES_NAME, MANIFEST_NAME):
        head = s3.head_object(Bucket=BUCKET, Key=f"{done.prefix}/{name}")
        assert head["ServerSideEncryption"] == "aws:kms"


def test_interrupted_upload_is_repeated(artifact, s3):
    s3.put_object(Bucket=BUCKET, Key=f"models/tiny/{artifact.name}/{ARCHIVE_NAME}", Body=b"half")
    assert upload(s3, artifact).uploaded


def test_other_bytes_of_the_same_size_and_digest_note_are_reported(artifact, s3):
    """Only S3's own checksum tells."""
    body = bytearray((artifact / ARCHIVE_NAME).read_bytes())
    body[-1] ^= 1
    key, note = f"models/tiny/{artifact.name}/{ARCHIVE_NAME}", {DIGEST_NOTE: artifact.name}
    upload(s3, artifact)
    s3.put_object(Bucket=BUCKET, Key=key, Body=bytes(body), Metadata=note, ChecksumAlgorithm="SHA256")
    with pytest.raises(PublishError, match="does not match"):
        upload(s3, artifact)


@pytest.mark.parametrize("body", [b"other", None])
@pytest.mark.parametrize("name", [ARCHIVE_NAME, EXAMPLES_NAME])
def test_a_manifest_with_another_or_no_file_is_reported(artifact, s3, name, body):
    upload(s3, artifact)
    s3.delete_object(Bucket=BUCKET, Key=f"models/tiny/{artifact.name}/{name}")
    if body is not None:
        put(s3, artifact, name, body)
    with pytest.raises(PublishError, match=re.escape(name)) as caught:
        upload(s3, artifact)
    assert "manifest" in (caught.value.remedy or "")


def test_a_corrupt_artifact_is_not_published(artifact, s3):
    flip(artifact)
    with pytest.raises(CorruptArtifactError):
        upload(s3, artifact)
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET)


def test_denied_access(artifact):
    client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    with Stubber(client) as stubber:
        stubber.add_client_error("get_object", "AccessDenied", http_status_code=403)
        with pytest.raises(PublishError, match="'artifacts' denied"):
            upload(client, artifact)


def test_an_archive_in_parts(artifact, s3, monkeypatch):
    """S3's checksum of a multipart object is not the hash of its bytes, and must not be mistaken for it."""
    original = s3.upload_file

    def upload_in_parts(*arguments: Any, **options: Any) -> None:
        original(*arguments, **options, Config=TransferConfig(multipart_threshold=1))

    monkeypatch.setattr(s3, "upload_file", upload_in_parts)
    assert upload(s3, artifact).uploaded
    head = s3.head_object(Bucket=BUCKET, Key=f"models/tiny/{artifact.name}/{ARCHIVE_NAME}")
    assert head["ETag"].endswith('-1"')


def test_artifacts_of_an_earlier_version_gain_only_examples(artifact, tmp_path, s3):
    early = forget_examples(artifact)
    assert upload(s3, early).uploaded
    before = published_manifest(s3, artifact)
    assert before.examples_sha256 is None

    again = keep(tmp_path, "Hello")
    (again / MANIFEST_NAME).write_text(  # another build's: its figures are its own
        read_manifest(again).model_copy(update={"source_revision": "2"}).to_json()
    )
    done = upload(s3, again)
    gained = published_manifest(s3, artifact)
    assert (done.uploaded, done.manifest) == (True, gained)
    assert gained.examples_sha256 == read_manifest(again).examples_sha256
    assert gained.model_copy(update={"examples_sha256": None}) == before
    assert not upload(s3, again).uploaded
    assert not upload(s3, forget_examples(again)).uploaded
    assert published_manifest(s3, artifact) == gained


def test_the_first_published_examples_are_kept(artifact, tmp_path, s3):
    """Two builds make the same archive with different examples; one manifest names one of them."""
    upload(s3, artifact)
    other = keep(tmp_path / "other", "Hallo")
    assert other.name == artifact.name
    done = upload(s3, other)
    assert not done.uploaded
    assert done.manifest == read_manifest(artifact) == published_manifest(s3, artifact)
    assert in_bucket(s3, artifact, EXAMPLES_NAME) == (artifact / EXAMPLES_NAME).read_bytes()


def test_examples_of_a_killed_publisher_belong_to_the_artifact(artifact, tmp_path, s3):
    examples = (keep(tmp_path / "other", "Hallo") / EXAMPLES_NAME).read_bytes()
    put(s3, artifact, EXAMPLES_NAME, examples)
    assert upload(s3, artifact).uploaded
    assert in_bucket(s3, artifact, EXAMPLES_NAME) == examples
    assert published_manifest(s3, artifact).examples_sha256 == hashlib.sha256(examples).hexdigest()


@pytest.mark.parametrize(
    "content", [b"half", b'{"model": "tiny", "digest": "' + b"0" * 64 + b'", "texts": [""]}']
)
def test_unusable_examples_are_replaced(artifact, s3, content):
    put(s3, artifact, EXAMPLES_NAME, content)
    upload(s3, artifact)
    assert in_bucket(s3, artifact, EXAMPLES_NAME) == (artifact / EXAMPLES_NAME).read_bytes()
    assert published_manifest(s3, artifact).examples_sha256


@pytest.mark.parametrize("name", [EXAMPLES_NAME, MANIFEST_NAME])
def test_concurrent_writers_of_examples_agree(artifact, tmp_path, s3, monkeypatch, name):
    """The other writer comes between each read and the following write."""
    upload(s3, forget_examples(artifact))
    mine, other = keep(tmp_path, "Hello"), keep(tmp_path / "other", "Hallo")
    original = s3.put_object

    def lose(**options: Any) -> Any:
        if options["Key"].endswith(name):
            monkeypatch.setattr(s3, "put_object", original)
            upload(s3, other)
        return original(**options)

    monkeypatch.setattr(s3, "put_object", lose)
    done = upload(s3, mine)
    assert published_manifest(s3, artifact).examples_sha256
    assert done.manifest == published_manifest(s3, artifact)


@pytest.mark.parametrize("name", [MANIFEST_NAME, EXAMPLES_NAME])
def test_the_first_of_two_publishers_wins(artifact, tmp_path, s3, monkeypatch, name):
    """The other one publishes everything right after this one has read that an object is missing."""
    other = keep(tmp_path / "other", "Hallo")
    figures = read_manifest(other).model_copy(update={"source_revision": "2"})
    (other / MANIFEST_NAME).write_text(figures.to_json())
    change_after(monkeypatch, "GetObject", name, lambda: upload(s3, other))
    done = upload(s3, artifact)
    assert done.manifest == published_manifest(s3, artifact) == read_manifest(other)


def test_writer_reports_repeated_conflicts(artifact, tmp_path, s3, monkeypatch):
    upload(s3, forget_examples(artifact))
    changed = ClientError({"Error": {"Code": "ConditionalRequestConflict"}}, "PutObject")
    monkeypatch.setattr(s3, "put_object", Mock(side_effect=changed))
    with pytest.raises(PublishError, match="publishers"):
        upload(s3, keep(tmp_path, "Hello"))
