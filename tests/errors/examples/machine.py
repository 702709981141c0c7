"""Examples of TS6xx: the local machine."""

from __future__ import annotations

import errno
import os

from tests.errors.examples.base import DEV, Setting, example


@example("TS601")
def no_server(shop: Setting) -> None:
    """A build on a machine without a Triton server."""
    from tritonstack.runtime.installation import find_installation

    find_installation(home=shop.root / "server")


@example("TS603")
def exposed(shop: Setting) -> None:
    """`tritonstack up` on a system that forbids user namespaces."""
    from tritonstack.runtime import sandbox

    shop.patch.setattr(sandbox, "why_no_namespaces", lambda: "unshare failed: Operation not permitted")
    sandbox.require_namespaces_or_consent()


@example("TS604")
def no_model_folder(shop: Setting) -> None:
    """An archive without a model folder."""
    from tritonstack.runtime.serve import serve_command

    (shop.root / "served").mkdir()
    serve_command(environment={}, model_root=shop.root / "served")


@example("TS608")
def not_running(shop: Setting) -> None:
    """`tritonstack status` of an environment in account 000000000000 before `tritonstack up`."""
    shop.edit(DEV, "1" * 12, "0" * 12)
    shop.command("invoke", "dev", "search", "Hello.")


@example("TS611")
def older_cloud(shop: Setting) -> None:
    """A local cloud that an older version started."""
    from tritonstack_local.cloud_folder import CloudAddress

    CloudAddress("http://127.0.0.1:4566", 4566, 1, "000000000000", "us-east-1").environment()


@example("TS612")
def damaged_state(shop: Setting) -> None:
    """The database of the local cloud's state is damaged."""
    from tritonstack_local.state.database import Database

    file = shop.write("state/state.db", "no database" * 100)
    file.parent.chmod(0o700)
    Database(file, stamp="1")


@example("TS615")
def no_package(shop: Setting) -> None:
    """A command that needs an extra that is not installed."""
    from tritonstack.workflows.extras import require

    shop.patch.setattr("tritonstack.workflows.extras.find_spec", lambda *_: None)
    shop.patch.setattr("tritonstack.base.extras.in_source_tree", lambda: False)
    require("aws_cdk", feature="Deploying")


@example("TS616")
def no_space(shop: Setting) -> None:
    """A command writes to a full disk."""
    from tritonstack.cli.main import _described

    raise _described(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "environments/dev.lock.yaml"))


@example("TS618")
def no_gh(shop: Setting) -> None:
    """A step of the delivery workflows on a runner without GitHub's command line."""
    from tritonstack.workflows.github import _run

    shop.patch.setenv("PATH", str(shop.root))
    _run("gh", "api", "/user")
