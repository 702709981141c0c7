"""Examples of TS6xx: the local machine."""

from __future__ import annotations

import errno
import os
import socket
import sqlite3

from tests.errors.examples.base import DEV, Setting, example


@example("TS601")
def no_server(shop: Setting) -> None:
    """A build on a machine without a Triton server."""
    from tritonstack.runtime.installation import find_installation

    find_installation(home=shop.root / "server")


@example("TS602")
def unknown_triton(shop: Setting) -> None:
    """A wheel with a Triton version that tritonstack does not know."""
    from tritonstack.runtime.install import _release_of

    _release_of("9.9.9")


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


@example("TS605")
def no_answer(shop: Setting) -> None:
    """The Triton server breaks the connection."""
    from tritonstack.runtime.connections import ConnectionPool

    def connect() -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.recv_into(bytearray(0))
        theirs.shutdown(socket.SHUT_RDWR)
        return ours

    ConnectionPool(connect=connect).request("GET", "/v2/health/ready", timeout_s=1)


@example("TS606")
def no_cdk(shop: Setting) -> None:
    """`tritonstack deploy` before `tritonstack setup`."""
    from tritonstack.operations.deploying import cdk

    shop.patch.setattr(cdk, "cdk_program", lambda _: None)
    cdk.find_cdk(shop.root, environment_name="dev", variables={})


@example("TS607")
def no_docker(shop: Setting) -> None:
    """A build of an image on a machine without Docker."""
    from tritonstack.runtime.docker_engine import docker_engine

    shop.patch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    docker_engine()


@example("TS608")
def not_running(shop: Setting) -> None:
    """`tritonstack status` of an environment in account 000000000000 before `tritonstack up`."""
    shop.edit(DEV, "1" * 12, "0" * 12)
    shop.command("invoke", "dev", "search", "Hello.")


@example("TS609")
def already_running(shop: Setting) -> None:
    """`tritonstack up` twice."""
    from tritonstack_local.process import _locked

    state = shop.root / ".tritonstack/clouds/default"
    with _locked(state), _locked(state):
        pass


@example("TS610")
def port_in_use(shop: Setting) -> None:
    """`tritonstack up --port` with the port of another program."""
    from tritonstack_local import process

    class Taken(socket.socket):
        def bind(self, _: object) -> None:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))

    shop.patch.setattr(process.socket, "socket", Taken)
    process._free_port(4566)


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


@example("TS613")
def full_disk(shop: Setting) -> None:
    """The disk of the local cloud's state is full."""
    from tritonstack_local.state.database import state_error

    with sqlite3.connect(shop.root / "state.db") as connection:
        connection.execute("PRAGMA max_page_count = 1")
        try:
            connection.execute("CREATE TABLE row (value BLOB)")
        except sqlite3.Error as error:
            raise state_error(shop.root / "state.db", error) from None


@example("TS614")
def other_account(shop: Setting) -> None:
    """A local cloud for account 123456789012, and an environment in account 000000000000."""
    from tritonstack_local.cloud_folder import CloudAddress

    address = CloudAddress("http://127.0.0.1:4566", 4566, 1, "123456789012", "eu-west-1")
    shop.edit(DEV, "1" * 12, "0" * 12)
    shop.patch.setattr("tritonstack.workflows.local_cloud.read_address", lambda _: address)
    shop.command("invoke", "dev", "search", "Hello.")


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


@example("TS625")
def unknown_model(shop: Setting) -> None:
    """A call of a multi-model endpoint with a wrong model name."""
    from tritonstack.client import ModelNames

    names = {"ncf-food": f"ncf-food/{'ab' * 32}/model.tar.gz"}
    ModelNames(lambda: names, source="/tritonstack-dev/targets/shop").target("ncf-fod")


@example("TS626")
def no_names(shop: Setting) -> None:
    """A file of model names that does not exist."""
    from tritonstack.client import ModelNames

    ModelNames.from_file("shop-models.json").known()


@example("TS627")
def no_target(shop: Setting) -> None:
    """A call of a multi-model endpoint with the digest of an archive that it does not have."""
    from tests.operations.strict_aws import client_error
    from tritonstack.client.errors import RequestFacts
    from tritonstack.client.failures import invocation_error

    target = "ncf-food/0123/model.tar.gz"
    message = (
        f"Failed to download model data(bucket: b, key: endpoints/tritonstack-dev-shop/{target}). Please "
        "ensure that there is an object located at the URL and that the role passed to CreateModel has "
        "permissions to download the model."
    )
    raised = client_error("InvokeEndpoint", "ValidationError", message)
    raise invocation_error(raised, request=RequestFacts("tritonstack-dev-shop", target))
