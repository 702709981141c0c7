"""Examples about model builds, artifacts, locks, and promotion: TS217, TS3xx, and TS4xx."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from model_build.checking import parity
from model_build.engines import machine
from model_build.engines.trtexec import profile_shapes
from model_build.environments.given import accept_environment
from model_build.exporters.entry_points import load_entry
from model_build.exporters.loading import check_unused
from model_build.exporters.sentence_settings import read_settings
from model_build.inputs.rows import read_rows
from model_build.linting.check import lint_repository
from model_build.linting.findings import LintOptions
from model_build.recipes.given_graph import start_session
from model_build.repository.existing import read_existing
from model_build.sources import fetch_source
from model_build.sources.local import _check_files
from model_build.store.artifacts import verify_artifact
from model_build.store.publishing import publish
from tests.errors.examples.aws import CLOUD, Rejecting
from tests.errors.examples.base import DEV, MODEL, Setting, case, example
from tests.manifests import manifest
from tests.moto_aws import simulated_aws
from tests.projects import ENVIRONMENT
from tritonstack import Session
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.yaml import Document, load_document
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.loading import ProjectFiles, load_models, load_workspace
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.examples import Example, Examples
from tritonstack.files.records.lock_writing import LockChange, add_to_lock, replace_entries
from tritonstack.files.records.locks import entry_of
from tritonstack.files.records.manifests import MANIFEST_NAME, Manifest, TensorSpec
from tritonstack.files.sources.model_hashes import model_hash
from tritonstack.files.sources.source_selection import TRANSFORMERS
from tritonstack.operate.artifacts.importing import ImportOptions, import_model
from tritonstack.operate.build.outcomes import Outcome, error_from, failure_of
from tritonstack.operate.jobs.codebuild import CodeBuildJobs, image_digest
from tritonstack.operate.local.dev import differences
from tritonstack.operate.locks.checks import check_offline

CONFIG = """\
backend: "onnxruntime"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
"""
BUCKET = "tritonstack-dev-artifacts"
LOCK = "environments/dev.lock.yaml"


def _fetch(shop: Setting) -> None:
    folder = shop.root / "models/minilm"
    fetch_source("file://parts", model_folder=folder, cache_dir=shop.root / "cache")


def _model(shop: Setting) -> Document[ModelSpec]:
    return load_document(shop.root / MODEL, ModelSpec)


case("TS301", "`source: file://weights` without that folder.", _fetch)


@example("TS217")
def pickle(shop: Setting) -> None:
    """A source whose only weights are `pytorch_model.bin`, a pickle."""
    shop.write("models/minilm/parts/pytorch_model.bin", "")
    _fetch(shop)


@example("TS302")
def no_weights(shop: Setting) -> None:
    """A source folder without weights."""
    shop.write("models/minilm/parts/config.json", "{}")
    _fetch(shop)


@example("TS303")
def changed_source(shop: Setting) -> None:
    """A file was added to an installed package that a model comes from."""
    shop.write("tiny/model.safetensors", "")
    _check_files(shop.root / "tiny", {}, TRANSFORMERS, source="package://tiny-models==1.0/tiny")


case(
    "TS304",
    "An entry of `allow_unused_weights` that matches no unused tensor.",
    lambda _: check_unused(None, ["pooler.dense.bias"], allowed={"pooler.weight": "the pooler is not used"}),
)
case(
    "TS305",
    "A text model whose `modules.json` is not JSON.",
    lambda shop: read_settings(shop.write("weights/modules.json", "{").parent),
)
case(
    "TS306",
    "A file `model.onnx` that holds no ONNX graph.",
    lambda shop: start_session(shop.write("model.onnx", "no graph")),
)
case(
    "TS309",
    "The entry `model.py:load` imports a package that does not exist.",
    lambda shop: load_entry(shop.write("model.py", "import no_such_package\n").parent, "model.py:load"),
)
case(
    "TS312",
    "An answer of the graph has another shape than the framework's.",
    lambda _: parity.compare("case 0", "embedding", actual=np.zeros((1, 2)), expected=np.zeros((1, 3))),
)
case(
    "TS318",
    "An `environment.tar.gz` that is not an archive of conda-pack.",
    lambda shop: accept_environment(
        shop.write("environment.tar.gz", "no archive"), file=shop.root / "packed.tar.gz"
    ),
)


@example("TS310")
def no_engine(shop: Setting) -> None:
    """A TensorRT profile for an input that the model does not have."""
    shop.edit(MODEL, "kind: text-embedding", "kind: text-embedding\n  format: tensorrt")
    sizes = "{min: [1, 1], opt: [1, 2], max: [1, 4]}"
    shop.add(MODEL, "precision: fp16", f"tensorrt: {{profiles: [{{shapes: {{IMAGE: {sizes}}}}}]}}")
    profile_shapes(_model(shop).record, [TensorSpec(name="TEXT", datatype="FP32", shape=(-1,))])


@example("TS311")
def no_tensorrt(shop: Setting) -> None:
    """A TensorRT engine is built on a machine without TensorRT."""
    shop.patch.setattr(machine, "TRTEXEC", shop.root / "trtexec")
    machine.require_trtexec()


@example("TS314")
def other_shape(shop: Setting) -> None:
    """A test input with three values for a model that takes two."""
    shop.write(
        MODEL,
        "name: minilm\ndescription: Python code.\nrecipe:\n  kind: python\n  code: model.py\n"
        '  requirements: requirements.txt\n  pythons: ["3.12"]\n'
        "tensors:\n  X: {datatype: FP32, shape: [2]}\n  Y: {datatype: FP32, shape: [2]}\n"
        "batching: {max_batch: 0}\n"
        "test_inputs: [{inputs: {X: [1.0, 2.0, 3.0]}, outputs: {Y: [1.0, 2.0]}}]\n",
    )
    read_rows(_model(shop), [TensorSpec(name="X", datatype="FP32", shape=(2,))])


@example("TS316")
def no_config(shop: Setting) -> None:
    """`max_batch_sise` in the `config.pbtxt` of a model."""
    shop.add(MODEL, "triton: {config: config.pbtxt}")
    shop.write("models/minilm/config.pbtxt", "max_batch_sise: 8\n")
    read_existing(_model(shop))


@example("TS319")
def failing_version(shop: Setting) -> None:
    """A model whose code raises an exception for its first test input."""
    x = {"name": "x", "datatype": "FP32", "shape": (1,), "values": (1.0,)}
    outputs = ({**x, "name": "y", "tolerance": {}},)
    request = {"name": "test input 1", "origin": "given", "inputs": (x,), "outputs": outputs}
    requests = (Example.model_validate(request),)
    reply = SimpleNamespace(status=500, body=b'{"error": "ValueError: x is not positive"}', headers={})
    server: Any = SimpleNamespace(request=lambda *_, **__: reply)
    list(differences(server, Examples(model="ranker", digest="0" * 64, requests=requests)))


@example("TS322")
def two_failures(shop: Setting) -> None:
    """Two models of one command cannot be built."""
    events = {
        "minilm": ("TS301", "file://weights: folder not found: weights", "correct `source`"),
        "scores": ("TS306", "scores.onnx is not an ONNX graph", "export it again"),
    }
    outcomes = []
    for number, (model, texts) in enumerate(events.items(), 1):
        error = error_from(dict(zip(("code", "message", "remedy"), texts, strict=True)), log=f"{number}.log")
        needed: Any = SimpleNamespace(model=model, target="cpu")
        outcomes.append(Outcome(needed, error=error))
    failure = failure_of(outcomes)
    assert failure is not None
    raise failure


@example("TS323")
def no_job(shop: Setting) -> None:
    """A new account without a quota for builds of this kind."""
    message = "Cannot have more than 0 builds in queue for the account"
    cloud: Any = Rejecting("StartBuild", "AccountLimitExceededException", message)
    infra: Any = None
    CodeBuildJobs(cloud, infra, "tritonstack-dev-build-cpu")._begun({})


@example("TS325")
def oci_image(shop: Setting) -> None:
    """An image that Docker pushed with an OCI manifest."""
    details = [{"imageManifestMediaType": "application/vnd.oci.image.manifest.v1+json"}]
    registry = SimpleNamespace(describe_images=lambda **_: {"imageDetails": details})
    cloud: Any = SimpleNamespace(client=lambda _: registry)
    image_digest(cloud, "111111111111.dkr.ecr.eu-west-1.amazonaws.com/tritonstack-dev/builder:25.04-py3-cpu")


def _lint(shop: Setting, file: str) -> None:
    """Raise what `tritonstack doctor` finds in a repository."""
    shop.write("repository/scores/config.pbtxt", CONFIG)
    shop.write(f"repository/scores/{file}", "")
    raise InvalidFilesError(lint_repository(Path("repository"), LintOptions("26.05")).findings)


case(
    "TS326",
    "`tritonstack doctor` of a repository whose model has no version folder.",
    lambda shop: _lint(shop, "model.onnx"),
)
case(
    "TS332",
    "`tritonstack doctor` of an ONNX model that leaves the number of instances to Triton.",
    lambda shop: _lint(shop, "1/model.onnx"),
)


@example("TS340")
def nothing_to_import(shop: Setting) -> None:
    """`tritonstack import` of a folder that has only weights."""
    shop.write("export/model.safetensors", "")
    shop.write("export/config.json", "{}")
    import_model(Session(shop.project), Path("export"), ImportOptions("ranker"))


def _manifest(shop: Setting, **changes: Any) -> Manifest:
    spec_hash = model_hash("minilm", load_models(shop.project, "minilm"))
    return manifest("minilm", **{"spec_hash": spec_hash, "source": "file://weights", **changes})


def _lock(shop: Setting) -> None:
    """Write a lock with one artifact."""
    add_to_lock(shop.root / LOCK, [_manifest(shop)])


def _bucket(name: str = BUCKET) -> Any:
    """Create a bucket, and return a client."""
    s3 = CLOUD.client("s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    return s3


@example("TS401")
def not_built(shop: Setting) -> None:
    """`tritonstack deploy` before `tritonstack build`."""
    raise InvalidFilesError(unbuilt(load_workspace(shop.project, "dev")))


@example("TS402")
def out_of_date(shop: Setting) -> None:
    """`model.yaml` has changed since the build."""
    _lock(shop)
    shop.edit(MODEL, "A man is eating food.", "A man eats.")
    raise InvalidFilesError(unbuilt(load_workspace(shop.project, "dev")))


@example("TS403")
def contradicting_manifest(shop: Setting) -> None:
    """A manifest on this machine states another size than the lock."""
    _lock(shop)
    other = _manifest(shop, archive_bytes=2)
    folder = shop.project.artifacts_dir / artifact_prefix("minilm", other.digest)
    shop.write(str(folder / MANIFEST_NAME), other.to_json())
    raise InvalidFilesError(check_offline(ProjectFiles(shop.project), ["dev"]).violations)


@example("TS408")
def lock_changed(shop: Setting) -> None:
    """Another command changes the lock while a rollback runs."""
    _lock(shop)
    seen, then = entry_of(_manifest(shop, digest="12" * 32)), entry_of(_manifest(shop, digest="34" * 32))
    replace_entries(shop.root / LOCK, [LockChange("minilm", "cpu", then, seen)])


@example("TS409")
def no_artifact(shop: Setting) -> None:
    """`tritonstack validate --online`, after somebody deleted an artifact from the bucket."""
    _lock(shop)
    shop.edit(DEV, "1" * 12, "123456789012")
    for name, value in CLOUD.variables.items():
        shop.patch.setenv(name, value)
    shop.open.enter_context(simulated_aws())
    _bucket("tritonstack-dev-artifacts-123456789012-eu-west-1")
    shop.command("validate", "dev", "--online")


@example("TS410")
def damaged(shop: Setting) -> None:
    """An archive was damaged after the build."""
    folder = f"artifacts/{'ab' * 32}"
    shop.write(f"{folder}/manifest.json", _manifest(shop).to_json())
    verify_artifact(shop.write(f"{folder}/model.tar.gz", "x").parent)


@example("TS413")
def half_published(shop: Setting) -> None:
    """The bucket has the manifest of an artifact, but not its archive."""
    digest = hashlib.sha256(b"x").hexdigest()
    text = _manifest(shop, digest=digest).to_json()
    shop.write(f"{digest}/manifest.json", text)
    folder = shop.write(f"{digest}/model.tar.gz", "x").parent
    with simulated_aws():
        s3 = _bucket()
        s3.put_object(Bucket=BUCKET, Key=f"{artifact_prefix('minilm', digest)}/manifest.json", Body=text)
        publish(artifact_dir=folder, bucket=BUCKET, s3_client=s3)


@example("TS418")
def other_source(shop: Setting) -> None:
    """`tritonstack promote` into an environment without `promotion`."""
    shop.write("environments/prod.yaml", ENVIRONMENT.replace("name: dev", "name: prod"))
    _lock(shop)
    shop.command("promote", "dev", "prod")


@example("TS421")
def no_rollback(shop: Setting) -> None:
    """`tritonstack rollback` of an endpoint that never served anything else."""
    _lock(shop)
    shop.command("rollback", "dev", "search")
