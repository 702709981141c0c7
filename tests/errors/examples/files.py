"""Examples of TS1xx: the content of one file."""

from __future__ import annotations

from tests.errors.examples.base import DEV, MODEL, Setting, example


@example("TS100")
def invalid_files(shop: Setting) -> None:
    """Two unknown keys in `environments/dev.yaml`."""
    shop.edit(DEV, "instance_type:", "instance_typ:")
    shop.edit(DEV, "region:", "regoin:")
    shop.validate()


@example("TS101")
def no_file(shop: Setting) -> None:
    """`environments/dev.yaml` is empty."""
    shop.write(DEV, "")
    shop.validate()


@example("TS102")
def no_yaml(shop: Setting) -> None:
    """A bracket is not closed: `endpoints: [`."""
    shop.edit(DEV, "endpoints:", "endpoints: [")
    shop.validate()


@example("TS103")
def yaml_tag(shop: Setting) -> None:
    """A value with a YAML tag: `name: !!binary ZGV2`."""
    shop.edit(DEV, "name: dev", "name: !!binary ZGV2")
    shop.validate()


@example("TS104")
def unknown_key(shop: Setting) -> None:
    """`instance_typ:` instead of `instance_type:`."""
    shop.edit(DEV, "instance_type:", "instance_typ:")
    shop.validate()


@example("TS105")
def duplicate_key(shop: Setting) -> None:
    """An endpoint with `kind: ensemble` twice."""
    shop.endpoint("kind: ensemble")
    shop.validate()


@example("TS106")
def missing_key(shop: Setting) -> None:
    """An environment without `region`."""
    shop.edit(DEV, "region: eu-west-1\n", "")
    shop.validate()


@example("TS107")
def no_value(shop: Setting) -> None:
    """`asynchronous:` with nothing behind it."""
    shop.endpoint("asynchronous:")
    shop.validate()


@example("TS108")
def wrong_type(shop: Setting) -> None:
    """`triton_release: 25.04` is a number; it needs quotes."""
    shop.edit(DEV, '"25.04"', "25.04")
    shop.validate()


@example("TS109")
def not_allowed(shop: Setting) -> None:
    """`kind: ensembel`."""
    shop.edit(DEV, "kind: ensemble", "kind: ensembel")
    shop.validate()


@example("TS110")
def out_of_range(shop: Setting) -> None:
    """`batching: {max_batch: -1}` in `model.yaml`."""
    shop.model("batching: {max_batch: -1}")
    shop.validate()


@example("TS111")
def invalid_value(shop: Setting) -> None:
    """An account id with 11 digits."""
    shop.edit(DEV, "1" * 12, "1" * 11)
    shop.validate()


@example("TS112")
def too_many(shop: Setting) -> None:
    """A tag key of 129 characters."""
    shop.dev(f"tags: {{{'k' * 129}: x}}")
    shop.validate()


@example("TS113")
def duplicate_item(shop: Setting) -> None:
    """The same test input twice."""
    shop.edit(MODEL, "test_inputs: [A man is eating food.]", "test_inputs: [Hello., Hello.]")
    shop.validate()


@example("TS114")
def excluding_options(shop: Setting) -> None:
    """An asynchronous endpoint of inference components."""
    shop.endpoint("asynchronous: {}")
    shop.endpoint("components: {memory_mb: 1024}")
    shop.validate()


@example("TS115")
def option_elsewhere(shop: Setting) -> None:
    """`tensorrt` options of a model that does not use TensorRT."""
    shop.model("tensorrt: {portability: exact}")
    shop.validate()


@example("TS116")
def later_release(shop: Setting) -> None:
    """TensorRT engines for a whole compute capability, on Triton 24.05."""
    shop.edit(DEV, '"25.04"', '"24.05"')
    shop.edit(DEV, "ml.c7i.xlarge", "ml.g5.xlarge")
    shop.edit(MODEL, "kind: text-embedding", "kind: text-embedding\n  format: tensorrt")
    shop.model("precision: fp16")
    shop.model("tensorrt: {portability: same-capability}")
    shop.validate()


@example("TS117")
def precision(shop: Setting) -> None:
    """`precision: int8` of a TorchScript model."""
    shop.edit(MODEL, "kind: text-embedding", "kind: text-embedding\n  format: torchscript")
    shop.model("precision: int8")
    shop.validate()


@example("TS118")
def outside(shop: Setting) -> None:
    """`source: file://../weights`."""
    shop.edit(MODEL, "file://weights", "file://../weights")
    shop.validate()


@example("TS119")
def no_gpu(shop: Setting) -> None:
    """Scaling by GPU load on a CPU instance type."""
    shop.endpoint("scaling: {gpu_utilization_percent: 60}")
    shop.validate()


@example("TS120")
def too_small(shop: Setting) -> None:
    """An inference component with more vCPUs than the instance type has."""
    shop.endpoint("components: {memory_mb: 1024, cpus: 8}")
    shop.validate()


@example("TS121")
def scaling(shop: Setting) -> None:
    """A real-time endpoint that scales to zero."""
    shop.endpoint("scaling: {min_instances: 0}")
    shop.validate()


@example("TS122")
def rollout(shop: Setting) -> None:
    """A canary rollout with one instance."""
    shop.endpoint("rollout: {strategy: canary}")
    shop.validate()


@example("TS123")
def variable(shop: Setting) -> None:
    """A variable that tritonstack sets itself."""
    shop.endpoint("environment: {SAGEMAKER_MULTI_MODEL: 'true'}")
    shop.validate()


@example("TS124")
def template(shop: Setting) -> None:
    """A template whose instances would all have the same name."""
    text = (shop.root / DEV).read_text().replace("name: dev", "name: preview")
    shop.write(
        "environments/preview.template.yaml",
        f"template:\n  locks: dev\n  purpose: Reviews of pull requests.\n{text}removal: destroy\n",
    )
    shop.validate()
