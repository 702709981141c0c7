"""Complete builds, each checked with a real Triton."""

from pathlib import Path

import numpy as np
import pytest

from model_build.build import BuildFolders, build_model
from model_build.errors import ParityError, SourceError
from model_build.progress import Progress
from model_build.store.archive import unpack
from model_build.store.artifacts import verify_artifact
from tests.model_build.builds.plain_model import CODE, write_plain_model
from tests.model_build.tiny import TEXTS, write_model
from tritonstack.base.errors import UsageError
from tritonstack.client import decode_reply, encode_request
from tritonstack.files.records.manifests import ARCHIVE_NAME
from tritonstack.triton import TritonNotFoundError, TritonServer, find_installation


def nothing_is_left(folders: BuildFolders) -> bool:
    """Assert that nothing but file locks is left."""
    files = [path for path in folders.artifacts.rglob("*") if path.is_file()]
    return all(path.suffix == ".lock" for path in files)


def test_a_target_without_its_recipe_is_rejected_first(tmp_path, folders):
    model = write_model(tmp_path, source="file://nowhere", extra="precision: int8\n")
    with pytest.raises(UsageError, match="built for cpu, not for sm86"):
        build_model(model=model, folders=folders, targets=["sm86-24.09"])


def test_a_missing_source_or_server_leaves_nothing(tmp_path, folders):
    told: list[Progress] = []
    model = write_model(tmp_path, source="file://nowhere")
    with pytest.raises(SourceError, match="folder not found"):
        build_model(model=model, folders=folders, on_progress=told.append)
    steps = [("source", "started"), ("source", "failed")]
    assert [(progress.step, progress.state) for progress in told] == steps
    elsewhere = BuildFolders(folders.artifacts, folders.cache, tmp_path / "no-server")
    with pytest.raises(TritonNotFoundError) as caught:
        build_model(model=model, folders=elsewhere, on_progress=told.append)
    assert "tritonstack setup" in str(caught.value)
    assert len(told) == len(steps), "the server is looked for before the first step"
    assert nothing_is_left(folders)


@pytest.mark.e2e
def test_a_build_from_end_to_end(tmp_path, tiny_folder, folders):
    model = write_model(tmp_path / "model", source=f"file://{tiny_folder}")
    told: list[Progress] = []
    first = build_model(model=model, folders=folders, on_progress=told.append)
    assert [progress.step for progress in told if progress.state == "done"] == [
        *("source", "load", "answer", "export", "compare graph", "repository", "pack", "serve", "keep")
    ]
    assert not first.reused
    assert first.manifest == verify_artifact(first.artifact_dir)
    assert {report.stage: report.min_cosine > 0.9999 for report in first.manifest.parity} == {
        "graph": True,
        "served": True,
    }
    assert [report.batch for report in first.manifest.latency] == [1, 4]
    assert build_model(model=model, folders=folders, targets=["cpu-py310", "cpu"]).reused
    _a_bad_text_spares_the_others(first.artifact_dir, tmp_path / "bad", folders)


@pytest.mark.e2e
@pytest.mark.usefixtures("plain_package")
def test_a_damaged_artifact_is_built_again_with_the_same_bytes(tmp_path, folders):
    model = write_plain_model(tmp_path / "model")
    first = build_model(model=model, folders=folders)
    with (first.artifact_dir / ARCHIVE_NAME).open("r+b") as stream:
        stream.write(b"damage")
    told: list[Progress] = []
    again = build_model(model=model, folders=folders, on_progress=told.append)
    failed = [progress for progress in told if progress.state == "failed"]
    assert [(progress.step, "checksum mismatch" in progress.detail) for progress in failed] == [
        ("existing", True)
    ]
    assert (again.reused, again.manifest.digest) == (False, first.manifest.digest)
    assert verify_artifact(again.artifact_dir)


def _a_bad_text_spares_the_others(artifact: Path, work: Path, folders: BuildFolders) -> None:
    manifest = verify_artifact(artifact)
    unpack(artifact / ARCHIVE_NAME, work / "model", limit_bytes=manifest.unpacked_bytes)
    with TritonServer.start(
        installation=find_installation(home=folders.server),
        model_root=work / "model",
        environment={"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": manifest.entry_model},
        state_dir=work / "state",
    ) as server:
        server.wait_ready(timeout_s=60)
        for text, status in ((b"\xff\xfe", 500), (TEXTS[0].encode(), 200)):
            request = encode_request({"TEXT": np.array([[text]], dtype=np.object_)})
            headers = {"Content-Type": request.content_type}
            reply = server.request("POST", "/invocations", body=request.body, headers=headers)
            assert reply.status == status, reply.body
        outputs = decode_reply(reply.body, content_type=reply.headers["content-type"]).outputs
        assert outputs["embedding"].shape == (1, 32)


@pytest.mark.e2e
def test_a_model_that_takes_tokens_is_one_triton_model(tmp_path, tiny_folder, folders):
    """The build serves it in both hosting modes; it is bound to no Python, whatever was requested."""
    model = write_model(tmp_path / "model", source=f"file://{tiny_folder}", takes="tokens")
    built = build_model(model=model, folders=folders, targets=["cpu-py312", "cpu"]).manifest
    assert (built.entry_model, built.target) == ("tiny", "cpu")
    assert [file.path for file in built.files] == ["tiny/1/model.onnx", "tiny/config.pbtxt"]
    assert [(t.name, t.datatype, t.shape) for t in (*built.inputs, *built.outputs)] == [
        ("input_ids", "INT64", (-1,)),
        ("attention_mask", "INT64", (-1,)),
        ("embedding", "FP32", (32,)),
    ]
    assert built.item_bytes == 32 * 4
    served = next(report for report in built.parity if report.stage == "served")
    assert served.min_cosine > 0.9999
    # Six texts alone, and four padded to one length: alone, in the rows of one request, at once, multi-model.
    assert served.cases > 3 * 10
    assert [report.batch for report in built.latency] == [1, 4]


@pytest.mark.e2e
@pytest.mark.usefixtures("plain_package")
def test_an_archive_that_fails_serving_is_not_stored(tmp_path, folders):
    model = write_plain_model(tmp_path / "model", CODE.replace("y = -x", "y = -x * 1.1"))
    with pytest.raises(ParityError, match="served artifact differs"):
        build_model(model=model, folders=folders)
    assert nothing_is_left(folders)
