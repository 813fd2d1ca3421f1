"""docs/reference/cli.md: every command with its arguments and options, from the command itself."""

from collections.abc import Iterator
from typing import Any

import typer

from docs.generate.markdown import code, page, table
from tunewright.cli.app import app
from tunewright.entry import operator

_INTRODUCTION = (
    "Every command of `tunewright`, as `--help` prints it. Results go to standard output, everything else to standard"
    " error."
)
_EXITS = (
    ("0", "done"),
    ("1", "`replay` found a difference; `run` or `rerun` ended as Failed; the reader of a pipe left"),
    ("2", "an input is wrong: one line for each problem, with field, value and remedy"),
    ("130", "interrupted; the same `run` goes on where it was"),
)


def command_line_page() -> str:
    """Return the page."""
    sections = [_section(path, command) for path, command in commands()]
    return page("Command line", _INTRODUCTION, *sections, "## Exit codes", table(("code", "means"), _EXITS))


def commands() -> list[tuple[str, Any]]:
    """Return every command with the words that call it, sorted, as `tunewright.entry` puts them together."""
    operators = typer.Typer(add_completion=False)
    operators.command()(operator)
    found = dict(_below(typer.main.get_command(app), "tunewright"))
    return sorted({**found, "tunewright operator": typer.main.get_command(operators)}.items())


def _below(command: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - Typer's own types are private
    children = getattr(command, "commands", {})
    if not children:
        yield path, command
    for name in sorted(children):
        yield from _below(children[name], f"{path} {name}")


def _section(path: str, command: Any) -> str:  # noqa: ANN401
    context = command.context_class(command, info_name=path)
    parameters = [one for one in command.params if one.name != "help"]
    usage = [path, *(str(one.metavar or one.name.upper()) for one in parameters if not _is_option(one))]
    if any(_is_option(one) for one in parameters):
        usage.append("[OPTIONS]")
    parts = [f"## {path.removeprefix('tunewright ')}", (command.help or "").strip(), f"```text\n{' '.join(usage)}\n```"]
    rows = [_row(one, context) for one in parameters]
    return "\n\n".join([*parts, table(("argument or option", "default", "meaning"), rows)] if rows else parts)


def _row(parameter: Any, context: Any) -> tuple[str, str, str]:  # noqa: ANN401
    shown = parameter.get_help_record(context)[0]
    stated = parameter.default if isinstance(parameter.default, str | int) and not _is_flag(parameter) else ""
    return code(shown), "required" if parameter.required else code(stated), parameter.help or ""


def _is_option(parameter: Any) -> bool:  # noqa: ANN401
    return bool(str(parameter.opts[0]).startswith("-"))


def _is_flag(parameter: Any) -> bool:  # noqa: ANN401
    return bool(getattr(parameter, "is_flag", False))
