"""Examples of TS9xx: use of the command line."""

from __future__ import annotations

from tests.errors.examples.base import DEV, Setting, example


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
def queued_endpoint(shop: Setting) -> None:
    """`tritonstack invoke` with an asynchronous endpoint."""
    shop.endpoint("asynchronous: {}")
    shop.edit(DEV, "1" * 12, "0" * 12)
    shop.command("invoke", "dev", "search", "Hello.")


@example("TS909")
def folder_in_use(shop: Setting) -> None:
    """`tritonstack init` in a folder with files."""
    shop.command("init", "models")


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
    shop.command("upgrade")


@example("TS911")
def name_in_use(shop: Setting) -> None:
    """A new environment with the name of another one."""
    from tritonstack.workflows.new_files import new_environment

    new_environment(shop.project, "dev", account="111111111111", region="eu-west-1")
