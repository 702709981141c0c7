"""The commands by group, with their summaries. A command is imported when it is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from tritonstack.base.extras import wing_entry
from tritonstack.cli.help_text import HelpfulCommand, styled_help

# The body of `deploy` imports the AWS SDK, which takes longer to load than a person waits for a completion.


def load_signature(module_name: str, name: str) -> Any:
    """Return the function or Typer application of a command; its functions do nothing."""
    spec = find_spec(module_name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(name=module_name)
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    tree.body = list(_needed(tree.body, name))[::-1]
    module: dict[str, Any] = {"__name__": module_name}
    exec(compile(ast.fix_missing_locations(tree), name, "exec"), module)  # noqa: S102 - the package's own source
    return module[name]


def _needed(statements: list[ast.stmt], name: str) -> Iterator[ast.stmt]:
    """Yield what the parameters of a command need, last statement first."""
    required = {name}
    for statement in reversed(statements):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
            aliases = [
                alias for alias in statement.names if future or (alias.asname or alias.name) in required
            ]
            if aliases:
                statement.names = aliases
                yield statement
        elif required & _bound(statement):
            if isinstance(statement, ast.FunctionDef):
                statement.body = [ast.Pass()]
            required |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            yield statement


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement defines, or the application that it adds a command to."""
    match statement:
        case ast.FunctionDef(name=name, decorator_list=decorators):
            nodes = [node for decorator in decorators for node in ast.walk(decorator)]
            return {name, *(node.id for node in nodes if isinstance(node, ast.Name))}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


GROUPS: Mapping[str, Mapping[str, str]] = {
    "Project": {
        "init": "Create a repository for models and environments",
        "new": "Add a model, an endpoint, or an environment",
        "import": "Import a Triton repository, Merlin export, or MLflow model",
        "setup": "Install the Triton server and the CDK CLI",
        "doctor": "Report missing tools, or check a Triton repository",
        "upgrade": "Pin this version of the tool in a repository",
        "validate": "Check models, environments, and locks",
        "quotas": "List the AWS quotas that an environment needs",
        "explain": "Explain an error code",
    },
    "Local": {
        "up": "Start the local cloud",
        "down": "Stop local clouds",
        "dev": "Serve a model and each change of its files",
    },
    "Build": {
        "build": "Export, compare, pack, and lock models",
        "inspect": "Show the graph, tensors, and files of a model",
    },
    "Deploy": {
        "diff": "Show what a deploy would change",
        "deploy": "Create or update the endpoints of an environment",
        "verify": "Check what runs, and its answers, against the commit",
        "promote": "Copy artifacts to the next environment",
        "rollback": "Roll an endpoint back to an earlier lock",
        "delivery": "Show delivery order, roles, and affected environments",
        "destroy": "Delete an environment",
        "ci": "Run a step of the GitHub workflows",
    },
    "Operate": {
        "status": "Show the state of environments",
        "report": "Write a report on the project as one HTML page",
        "logs": "Show the logs of endpoints and builds",
        "invoke": "Send texts, tensors, or files to an endpoint",
        "snippet": "Print a ready request to an endpoint",
        "targets": "Show the model names of multi-model endpoints",
        "bench": "Measure an endpoint under load",
        "tune": "Find the fastest settings of a model by measuring",
        "simulate": "Simulate the scaling and cost of an endpoint",
        "history": "Show what happened to a model's artifacts",
        "audit": "List remaining resources of an environment",
        "reap": "Destroy temporary environments that have expired",
    },
}
COMMANDS = tuple(name for commands in GROUPS.values() for name in commands)
FOLDERS: Mapping[str, str] = {
    "Project": "project",
    "Local": "local",
    "Build": "builds",  # pytest and ruff skip folders named "build"
    "Deploy": "deploy",
    "Operate": "operate",
}
"""The folder of each group in `commands`."""
WINGS: Mapping[str, str] = dict.fromkeys(("bench", "tune", "simulate"), "tritonstack_sizing")
"""Commands of optional packages, and the packages: their entry points name the modules."""
ENTRY_POINTS = "tritonstack.commands"


class CommandGroup(TyperGroup):
    """Lists every command, and imports only the one that is used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # Typer suggests close matches from these names.
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; None if there is no such command."""
        if cmd_name in COMMANDS and self.commands[cmd_name] is None:
            self.commands[cmd_name] = load_command(cmd_name, completing=ctx.resilient_parsing)
        return self.commands.get(cmd_name)

    def get_help(self, ctx: Any) -> str:
        """Return the help, with colors that `typer` removes outside of a terminal."""
        return styled_help(super().get_help(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by task, then the global options."""
        width = max(map(len, COMMANDS))
        for group, commands in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(f"{name:{width}}", text) for name, text in commands.items()])
        with formatter.section("Options"):
            records = (parameter.get_help_record(ctx) for parameter in self.get_params(ctx))
            formatter.write_dl([record for record in records if record is not None])


def command_module(name: str) -> str:
    """Return the name of a command's module; raise UsageError if its package is not installed."""
    if name in WINGS:
        return wing_entry(ENTRY_POINTS, name, package=WINGS[name]).module
    group = next(group for group, commands in GROUPS.items() if name in commands)
    return f"tritonstack.cli.commands.{FOLDERS[group]}.{function_name(name)}"


def function_name(name: str) -> str:
    """Return the name of a command's module and function, which is no keyword of Python."""
    return f"{name}_" if iskeyword(name) else name


def load_command(name: str, *, completing: bool = False) -> Any:
    """Import a command's module; shell completion needs only its parameters."""
    summary = next(commands[name] for commands in GROUPS.values() if name in commands)
    module = command_module(name)
    function = function_name(name)
    command = load_signature(module, function) if completing else getattr(import_module(module), function)
    if isinstance(command, typer.Typer):
        group = typer.main.get_command(command)
        group.name, group.short_help = name, summary
        return group
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name=name, short_help=summary, cls=HelpfulCommand)(command)
    return typer.main.get_command(alone)
