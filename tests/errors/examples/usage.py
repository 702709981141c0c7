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


@example("TS904")
def option_alone(shop: Setting) -> None:
    """`tritonstack validate --name pr-1`, without a template."""
    shop.command("validate", "--name", "pr-1")


@example("TS905")
def no_reason(shop: Setting) -> None:
    """`tritonstack promote --override-gate soaked_hours=`, without a reason."""
    from tritonstack.operations.promotion.gates import GATES
    from tritonstack.workflows.promotion.promote import parse_overrides

    parse_overrides([f"{GATES[0]}="])


@example("TS906")
def interrupted(shop: Setting) -> None:
    """Ctrl-C while a command runs."""

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    shop.patch.setattr("tritonstack.workflows.project.validate.validate_project", stop)
    shop.command("validate")


@example("TS907")
def invalid_account(shop: Setting) -> None:
    """`tritonstack up --account 12`."""
    shop.command("up", "--detach", "--account", "12")


@example("TS908")
def one_model(shop: Setting) -> None:
    """`tritonstack targets` with an endpoint of one model."""
    shop.command("targets", "dev", "search")


@example("TS909")
def folder_in_use(shop: Setting) -> None:
    """`tritonstack init` in a folder with files."""
    shop.command("init", "models")


@example("TS919")
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


@example("TS910")
def no_pin(shop: Setting) -> None:
    """`tritonstack upgrade` in a repository without `requirements.txt`."""
    # Whatever version runs, this page shows the same one.
    shop.patch.setattr("tritonstack.project.scaffold.repository.running_version", lambda: "0.1.0")
    shop.command("upgrade")


@example("TS911")
def name_in_use(shop: Setting) -> None:
    """A new environment with the name of another one."""
    from tritonstack.workflows.new_files import new_environment

    new_environment(shop.project, "dev", account="111111111111", region="eu-west-1")


@example("TS912")
def wrong_input(shop: Setting) -> None:
    """`tritonstack invoke` with the wrong name of an input."""
    from tests.manifests import manifest
    from tritonstack.records.manifests import TensorSpec
    from tritonstack.workflows.invocation.request_inputs import GivenInputs, read_inputs

    user, item = (TensorSpec(name=name, datatype="INT64", shape=(1,)) for name in ("user", "item"))
    read_inputs(GivenInputs(["usr=7"]), manifest("ncf-food", inputs=(user, item)))


@example("TS913")
def no_input_file(shop: Setting) -> None:
    """`tritonstack invoke` with a file that does not exist."""
    from tritonstack.records.manifests import TensorSpec
    from tritonstack.workflows.invocation.input_files import read_input_file

    image = TensorSpec(name="IMAGE", datatype="BYTES", shape=(1,))
    read_input_file(shop.root.relative_to(shop.root) / "rose.jpg", image)


@example("TS914")
def wrong_trace(shop: Setting) -> None:
    """`tritonstack bench --trace` with a file that has another first line."""
    from tritonstack.operations.loads.arrivals import read_trace

    shop.write("monday.csv", "minute,requests\n0,120\n")
    read_trace(Path("monday.csv"), seed=1)


@example("TS917")
def no_steady_level(shop: Setting) -> None:
    """`tritonstack simulate --bench` with a result whose requests all failed."""
    from tritonstack.operations.loads.runs import SavedRuns, summarize
    from tritonstack.operations.loads.sending import Sent
    from tritonstack.operations.scaling_simulation.service_curves import measured_curve

    sent = Sent()
    for second in range(20):
        sent.note(second, second, second + 0.1, "ModelError 503")
    run = summarize(sent, load="closed loop, 4 users", seconds=20.0, is_trace=False)
    saved = SavedRuns("dev", "food", "ncf-food", "0" * 12, "ml.c7i.xlarge", "2026-11-24T09:00:00", (run,))
    measured_curve(saved, source="one.json")
