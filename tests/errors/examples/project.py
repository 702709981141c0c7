"""Examples of TS2xx: contradictions between project files."""

from __future__ import annotations

from tests.errors.examples.base import DEV, MODEL, Setting, example
from tests.projects import ENVIRONMENT

PYTHON_MODEL = """\
name: minilm
description: Python code.
recipe:
  kind: python
  code: model.py
  requirements: requirements.txt
  pythons: ["3.12"]
tensors:
  X: {datatype: FP32, shape: [2]}
  Y: {datatype: FP32, shape: [2]}
batching: {max_batch: 0}
test_inputs: [{inputs: {X: [1.0, 2.0]}, outputs: {Y: [1.0, 2.0]}}]
"""
DELIVERY = "branch: main\nconnection: github\nenvironments: [{name: dev}]\n"


def _python(shop: Setting) -> None:
    shop.write(MODEL, PYTHON_MODEL)
    shop.write("models/minilm/model.py", "")
    shop.write("models/minilm/requirements.txt", "pydantic==2.11.0\n")
    shop.edit(DEV, "kind: ensemble", "kind: single")


@example("TS201")
def no_model(shop: Setting) -> None:
    """`model: minlm` in an endpoint."""
    shop.edit(DEV, "model: minilm", "model: minlm")
    shop.validate()


@example("TS202")
def no_environment(shop: Setting) -> None:
    """A template with the lock of an environment that does not exist."""
    text = ENVIRONMENT.replace("name: dev", "name: ${name}")
    shop.write(
        "environments/preview.template.yaml",
        f"template:\n  locks: prod\n  purpose: Reviews of pull requests.\n{text}removal: destroy\n",
    )
    shop.validate()


@example("TS203")
def other_name(shop: Setting) -> None:
    """`name: staging` in `environments/dev.yaml`."""
    shop.edit(DEV, "name: dev", "name: staging")
    shop.validate()


@example("TS204")
def same_name(shop: Setting) -> None:
    """Two environments of one account whose endpoints get the same name."""
    shop.write(
        "environments/dev-a.yaml", ENVIRONMENT.replace("name: dev", "name: dev-a").replace("search:", "b:")
    )
    shop.edit(DEV, "search:", "a-b:")
    shop.validate()


@example("TS205")
def no_such_file(shop: Setting) -> None:
    """A Python model whose requirements file is missing."""
    _python(shop)
    (shop.root / "models/minilm/requirements.txt").unlink()
    shop.validate()


@example("TS206")
def not_in_region(shop: Setting) -> None:
    """`instance_type: ml.p5.48xlarge` in eu-west-1."""
    shop.edit(DEV, "ml.c7i.xlarge", "ml.p5.48xlarge")
    shop.validate()


@example("TS207")
def old_gpu(shop: Setting) -> None:
    """A V100 GPU with Triton 25.04."""
    shop.edit(DEV, "ml.c7i.xlarge", "ml.p3.2xlarge")
    shop.validate()


@example("TS208")
def no_build_machine(shop: Setting) -> None:
    """A TensorRT model for A100 GPUs, in a region whose build services have none."""
    shop.edit(DEV, "ml.c7i.xlarge", "ml.p4d.24xlarge")
    shop.edit(MODEL, "kind: text-embedding", "kind: text-embedding\n  format: tensorrt")
    shop.model("precision: fp16")
    shop.validate()


@example("TS209")
def other_kind(shop: Setting) -> None:
    """`kind: single` for a model whose recipe makes a pipeline."""
    shop.edit(DEV, "kind: ensemble", "kind: single")
    shop.validate()


@example("TS210")
def no_cpu(shop: Setting) -> None:
    """A TensorRT model on a CPU instance type."""
    shop.edit(MODEL, "kind: text-embedding", "kind: text-embedding\n  format: tensorrt")
    shop.model("precision: fp16")
    shop.validate()


@example("TS211")
def no_backend(shop: Setting) -> None:
    """An endpoint with the image of a folder that does not exist."""
    shop.endpoint("image: mine")
    shop.validate()


@example("TS212")
def other_python(shop: Setting) -> None:
    """Packages for Python 3.12 on Triton 24.05, whose images have Python 3.10."""
    _python(shop)
    shop.edit(DEV, '"25.04"', '"24.05"')
    shop.validate()


@example("TS213")
def no_version(shop: Setting) -> None:
    """A requirement without a version: `pydantic`."""
    _python(shop)
    shop.write("models/minilm/requirements.txt", "pydantic\n")
    shop.validate()


@example("TS214")
def ensemble(shop: Setting) -> None:
    """Two steps of an ensemble that write the same tensor."""
    step = "{model: minilm, outputs: {embedding: vector}}"
    shop.write(
        "models/pair/model.yaml",
        "name: pair\ndescription: A pipeline.\nrecipe:\n  kind: ensemble\n"
        f"  steps: [{step}, {step}]\n  outputs: [vector]\ntest_inputs: [Hello.]\n",
    )
    shop.validate()


@example("TS216")
def shadowed(shop: Setting) -> None:
    """A file `json.py` beside `model.py`."""
    _python(shop)
    shop.write("models/minilm/model.py", "import json\n")
    shop.write("models/minilm/json.py", "")
    shop.validate()


@example("TS217")
def pickle(shop: Setting) -> None:
    """A source whose only weights are `pytorch_model.bin`, a pickle."""
    from model_build.sources import fetch_source

    shop.write("models/minilm/parts/pytorch_model.bin", "")
    fetch_source("file://parts", model_folder=shop.root / "models/minilm", cache_dir=shop.root / "cache")


@example("TS218")
def preview_without_boundary(shop: Setting) -> None:
    """Previews of pull requests without a permissions boundary in their template."""
    text = ENVIRONMENT.replace("name: dev", "name: ${name}")
    shop.write(
        "environments/preview.template.yaml",
        f"template:\n  locks: dev\n  purpose: Reviews of pull requests.\n{text}removal: destroy\n",
    )
    shop.write(
        "delivery.yaml",
        "branch: main\nrepository: acme/shop\nenvironments: [{name: dev}]\n"
        "previews: {template: preview, environment: dev}\n",
    )
    shop.validate()


@example("TS219")
def delivery_order(shop: Setting) -> None:
    """`prod` is delivered before its promotion source."""
    shop.write(
        "environments/prod.yaml",
        ENVIRONMENT.replace("name: dev", "name: prod") + "promotion: {source: dev}\n",
    )
    shop.write(
        "delivery.yaml", "branch: main\nrepository: acme/shop\nenvironments: [{name: prod}, {name: dev}]\n"
    )
    shop.validate()


@example("TS220")
def wrong_suffix(shop: Setting) -> None:
    """`environments/staging.yml` instead of `staging.yaml`."""
    shop.write("environments/staging.yml", ENVIRONMENT)
    shop.validate()
