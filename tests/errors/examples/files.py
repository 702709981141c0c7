"""Examples about files, the machine, and the command line: TS1xx, TS2xx, TS6xx, and TS9xx."""

from __future__ import annotations

import errno
import os

from tests.errors.examples.base import DEV, Setting, case, command, edited, example
from tests.manifests import manifest
from tests.projects import ENVIRONMENT
from tritonstack.base.extras import require
from tritonstack.cli.main import _described
from tritonstack.files.records.manifests import TensorSpec
from tritonstack.operate.invoke.request_inputs import GivenInputs, read_inputs
from tritonstack.operate.project.github import _run
from tritonstack.triton import sandbox
from tritonstack.triton.installation import find_installation
from tritonstack.triton.serve import serve_command
from tritonstack_local.cloud_folder import CloudAddress
from tritonstack_local.state.folder import check_owner
from tritonstack_sizing.loads.arrivals import read_trace
from tritonstack_sizing.tuning.search_folders import only_search

INSTANCE = "ml.c7i.xlarge"
VALIDATE = "tritonstack.operate.project.validate.validate_project"

edited(
    "TS100",
    "Two unknown keys in `environments/dev.yaml`.",
    (DEV, "instance_type:", "instance_typ:"),
    (DEV, "region:", "regoin:"),
)
edited("TS102", "A bracket is not closed: `endpoints: [`.", (DEV, "endpoints:", "endpoints: ["))
edited("TS104", "`instance_typ:` instead of `instance_type:`.", (DEV, "instance_type:", "instance_typ:"))
edited("TS106", "An environment without `region`.", (DEV, "region: eu-west-1\n", ""))
edited("TS111", "An account id with 11 digits.", (DEV, "1" * 12, "1" * 11))
edited("TS201", "`model: minlm` in an endpoint.", (DEV, "model: minilm", "model: minlm"))
edited("TS206", "`instance_type: ml.p5.48xlarge` in eu-west-1.", (DEV, INSTANCE, "ml.p5.48xlarge"))
edited(
    "TS209",
    "`kind: single` for a model whose recipe makes a pipeline.",
    (DEV, "kind: ensemble", "kind: single"),
)


def added(code: str, caption: str, *lines: str) -> None:
    """Register the example of a code: lines that are added to an endpoint."""

    def run(shop: Setting) -> None:
        shop.add(DEV, *(f"    {line}" for line in lines))
        shop.validate()

    case(code, caption, run)


added(
    "TS114",
    "An asynchronous endpoint of inference components.",
    "asynchronous: {}",
    "components: {memory_mb: 1024}",
)
added("TS119", "Scaling by GPU load on a CPU instance type.", "scaling: {gpu_utilization_percent: 60}")
added("TS121", "A real-time endpoint that scales to zero.", "scaling: {min_instances: 0}")


def written(code: str, caption: str, files: dict[str, str]) -> None:
    """Register the example of a code: files that are written into a valid project."""

    def run(shop: Setting) -> None:
        for file, text in files.items():
            shop.write(file, text)
        shop.validate()

    case(code, caption, run)


STEP = "{model: minilm, outputs: {embedding: vector}}"
TEMPLATE = "template:\n  locks: dev\n  purpose: Reviews of pull requests.\n"
written("TS101", "`environments/dev.yaml` is empty.", {DEV: ""})
written(
    "TS124",
    "A template whose instances would all have the same name.",
    {
        "environments/preview.template.yaml": (
            f"{TEMPLATE}{ENVIRONMENT.replace('name: dev', 'name: preview')}removal: destroy\n"
        )
    },
)
written(
    "TS204",
    "Two environments of one account whose endpoints get the same name.",
    {
        "environments/dev-a.yaml": ENVIRONMENT.replace("name: dev", "name: dev-a").replace("search:", "b:"),
        DEV: ENVIRONMENT.replace("search:", "a-b:"),
    },
)
written(
    "TS214",
    "Two steps of an ensemble that write the same tensor.",
    {
        "models/pair/model.yaml": (
            "name: pair\ndescription: A pipeline.\nrecipe:\n  kind: ensemble\n"
            f"  steps: [{STEP}, {STEP}]\n  outputs: [vector]\ntest_inputs: [Hello.]\n"
        )
    },
)
written(
    "TS219",
    "`prod` is delivered before its promotion source.",
    {
        "environments/prod.yaml": (
            ENVIRONMENT.replace("name: dev", "name: prod") + "promotion: {source: dev}\n"
        ),
        "delivery.yaml": ("branch: main\nrepository: acme/shop\nenvironments: [{name: prod}, {name: dev}]\n"),
    },
)

case(
    "TS601",
    "A build on a machine without a Triton server.",
    lambda shop: find_installation(home=shop.root / "server"),
)
case(
    "TS611",
    "A local cloud that an older version started.",
    lambda _: CloudAddress("http://127.0.0.1:4566", 4566, 1, "000000000000", "us-east-1").environment(),
)


@example("TS603")
def exposed(shop: Setting) -> None:
    """`tritonstack up` on a system that forbids user namespaces."""
    shop.patch.setattr(sandbox, "why_no_namespaces", lambda: "unshare failed: Operation not permitted")
    sandbox.require_namespaces_or_consent()


@example("TS604")
def no_model_folder(shop: Setting) -> None:
    """An archive without a model folder."""
    (shop.root / "served").mkdir()
    serve_command(environment={}, model_root=shop.root / "served")


@example("TS608")
def not_running(shop: Setting) -> None:
    """`tritonstack status` of an environment in account 000000000000 before `tritonstack up`."""
    shop.edit(DEV, "1" * 12, "0" * 12)
    shop.command("invoke", "dev", "search", "Hello.")


@example("TS612")
def foreign_state(shop: Setting) -> None:
    """Other users of the machine can write to the local cloud's state."""
    file = shop.write("state/snapshot", "")
    file.chmod(0o666)
    check_owner(file)


@example("TS615")
def no_package(shop: Setting) -> None:
    """A command that needs an extra that is not installed."""
    shop.patch.setattr("tritonstack.base.extras.find_spec", lambda *_: None)
    shop.patch.setattr("tritonstack.base.extras.in_source_tree", lambda: False)
    require("aws_cdk", feature="Deploying")


@example("TS616")
def no_space(shop: Setting) -> None:
    """A command writes to a full disk."""
    raise _described(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "environments/dev.lock.yaml"))


@example("TS618")
def no_gh(shop: Setting) -> None:
    """A step of the delivery workflows on a runner without GitHub's command line."""
    shop.patch.setenv("PATH", str(shop.root))
    _run("gh", "api", "/user")


command("TS901", "`tritonstack deploy`.", "deploy")
command("TS903", "`tritonstack validate dve`.", "validate", "dve")
command("TS908", "`tritonstack targets` with an endpoint of one model.", "targets", "dev", "search")
command("TS909", "`tritonstack init` in a folder with files.", "init", "models")


@example("TS902")
def no_project(shop: Setting) -> None:
    """`tritonstack validate` in a folder without a project."""
    (shop.root / "cdk.json").unlink()
    shop.command("validate")


def _failing(shop: Setting, error: BaseException) -> None:
    """Run `tritonstack validate`, which raises an error."""

    def fail(*_: object) -> None:
        raise error

    shop.patch.setattr(VALIDATE, fail)
    shop.command("validate")


case("TS906", "Ctrl-C while a command runs.", lambda shop: _failing(shop, KeyboardInterrupt()))
case("TS999", "A defect of tritonstack.", lambda shop: _failing(shop, ZeroDivisionError("division by zero")))


@example("TS912")
def wrong_input(shop: Setting) -> None:
    """`tritonstack invoke` with the wrong name of an input."""
    user, item = (TensorSpec(name=name, datatype="INT64", shape=(1,)) for name in ("user", "item"))
    read_inputs(GivenInputs(["usr=7"]), manifest("ncf-food", inputs=(user, item)))


@example("TS914")
def wrong_trace(shop: Setting) -> None:
    """`tritonstack bench --trace` with a file that has another first line."""
    read_trace(shop.write("monday.csv", "minute,requests\n0,120\n").relative_to(shop.root), seed=1)


@example("TS916")
def second_search(shop: Setting) -> None:
    """`tritonstack tune` while another one runs in the project."""
    with only_search(shop.project), only_search(shop.project):
        pass
