"""Examples of TS9xx: use of the command line."""

from __future__ import annotations

from pathlib import Path

from tests.errors.examples.base import Setting, example


@example("TS901")
def no_argument(shop: Setting) -> None:
    """`tritonstack deploy`."""
    shop.command("deploy")


@example("TS902")
def no_project(shop: Setting) -> None:
    """`tritonstack validate` in a folder without a project."""
    (shop.root / "cdk.json").unlink()
    shop.command("validate")


@example("TS903")
def unknown_name(shop: Setting) -> None:
    """`tritonstack validate dve`."""
    shop.command("validate", "dve")


@example("TS906")
def interrupted(shop: Setting) -> None:
    """Ctrl-C while a command runs."""

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    shop.patch.setattr("tritonstack.workflows.project.validate.validate_project", stop)
    shop.command("validate")


@example("TS908")
def one_model(shop: Setting) -> None:
    """`tritonstack targets` with an endpoint of one model."""
    shop.command("targets", "dev", "search")


@example("TS909")
def folder_in_use(shop: Setting) -> None:
    """`tritonstack init` in a folder with files."""
    shop.command("init", "models")


@example("TS916")
def second_search(shop: Setting) -> None:
    """`tritonstack tune` while another one runs in the project."""
    from tritonstack.workflows.sizing.search_folders import only_search

    with only_search(shop.project), only_search(shop.project):
        pass


@example("TS999")
def defect(shop: Setting) -> None:
    """A defect of tritonstack."""

    def fail(_: object) -> None:
        raise ZeroDivisionError("division by zero")

    shop.patch.setattr("tritonstack.workflows.project.validate.validate_project", fail)
    shop.command("validate")


@example("TS912")
def wrong_input(shop: Setting) -> None:
    """`tritonstack invoke` with the wrong name of an input."""
    from tests.manifests import manifest
    from tritonstack.records.manifests import TensorSpec
    from tritonstack.workflows.invocation.request_inputs import GivenInputs, read_inputs

    user, item = (TensorSpec(name=name, datatype="INT64", shape=(1,)) for name in ("user", "item"))
    read_inputs(GivenInputs(["usr=7"]), manifest("ncf-food", inputs=(user, item)))


@example("TS914")
def wrong_trace(shop: Setting) -> None:
    """`tritonstack bench --trace` with a file that has another first line."""
    from tritonstack.operations.loads.arrivals import read_trace

    shop.write("monday.csv", "minute,requests\n0,120\n")
    read_trace(Path("monday.csv"), seed=1)
