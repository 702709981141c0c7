"""Examples of TS1xx: the content of one file."""

from __future__ import annotations

from tests.errors.examples.base import DEV, Setting, example


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


@example("TS104")
def unknown_key(shop: Setting) -> None:
    """`instance_typ:` instead of `instance_type:`."""
    shop.edit(DEV, "instance_type:", "instance_typ:")
    shop.validate()


@example("TS106")
def missing_key(shop: Setting) -> None:
    """An environment without `region`."""
    shop.edit(DEV, "region: eu-west-1\n", "")
    shop.validate()


@example("TS111")
def invalid_value(shop: Setting) -> None:
    """An account id with 11 digits."""
    shop.edit(DEV, "1" * 12, "1" * 11)
    shop.validate()


@example("TS114")
def excluding_options(shop: Setting) -> None:
    """An asynchronous endpoint of inference components."""
    shop.endpoint("asynchronous: {}")
    shop.endpoint("components: {memory_mb: 1024}")
    shop.validate()


@example("TS119")
def no_gpu(shop: Setting) -> None:
    """Scaling by GPU load on a CPU instance type."""
    shop.endpoint("scaling: {gpu_utilization_percent: 60}")
    shop.validate()


@example("TS121")
def scaling(shop: Setting) -> None:
    """A real-time endpoint that scales to zero."""
    shop.endpoint("scaling: {min_instances: 0}")
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
