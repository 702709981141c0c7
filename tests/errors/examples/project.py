"""Examples of TS2xx: contradictions between project files."""

from __future__ import annotations

from tests.errors.examples.base import DEV, Setting, example
from tests.projects import ENVIRONMENT


@example("TS201")
def no_model(shop: Setting) -> None:
    """`model: minlm` in an endpoint."""
    shop.edit(DEV, "model: minilm", "model: minlm")
    shop.validate()


@example("TS204")
def same_name(shop: Setting) -> None:
    """Two environments of one account whose endpoints get the same name."""
    shop.write(
        "environments/dev-a.yaml", ENVIRONMENT.replace("name: dev", "name: dev-a").replace("search:", "b:")
    )
    shop.edit(DEV, "search:", "a-b:")
    shop.validate()


@example("TS206")
def not_in_region(shop: Setting) -> None:
    """`instance_type: ml.p5.48xlarge` in eu-west-1."""
    shop.edit(DEV, "ml.c7i.xlarge", "ml.p5.48xlarge")
    shop.validate()


@example("TS209")
def other_kind(shop: Setting) -> None:
    """`kind: single` for a model whose recipe makes a pipeline."""
    shop.edit(DEV, "kind: ensemble", "kind: single")
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


@example("TS217")
def pickle(shop: Setting) -> None:
    """A source whose only weights are `pytorch_model.bin`, a pickle."""
    from model_build.sources import fetch_source

    shop.write("models/minilm/parts/pytorch_model.bin", "")
    fetch_source("file://parts", model_folder=shop.root / "models/minilm", cache_dir=shop.root / "cache")


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
