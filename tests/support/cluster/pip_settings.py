"""pip's settings on this machine, from its files and `PIP_*` variables, handed to an image build as one file.

Called by `image_build.py`. What they say is never looked at: an index, a proxy or a folder of wheels works alike.
"""

import ast
import sys
from pathlib import Path

from tests.support.cluster.commands import run


def pip_mounts(folder: Path) -> list[str]:
    """Write the settings into a folder and return the mounts that give them to pip in a build."""
    settings = effective_settings(run(sys.executable, "-m", "pip", "config", "list"))
    file = folder / "pip.conf"
    file.write_text(as_configuration(settings))
    named = {Path(word) for value in settings.values() for word in value.split() if word.startswith("/")}
    folders = sorted(path for path in named if path.is_dir())
    return [f"{file}:/etc/pip.conf:ro", *[f"{path}:{path}:ro" for path in folders]]


def effective_settings(listed: str) -> dict[str, str]:
    """Read `pip config list`; variables come after files, as they do for pip.

    >>> effective_settings("global.timeout='3'\\n:env:.timeout='9'\\ninstall.no-deps='1'")
    {'global.timeout': '9', 'install.no-deps': '1'}
    """
    pairs = [line.split("=", 1) for line in listed.splitlines() if "=" in line]
    from_files = [(key, value) for key, value in pairs if not key.startswith(":env:")]
    from_variables = [(key.replace(":env:", "global"), value) for key, value in pairs if key.startswith(":env:")]
    return {key: ast.literal_eval(value) for key, value in from_files + from_variables}


def as_configuration(settings: dict[str, str]) -> str:
    """Write settings as a pip.conf."""
    sections: dict[str, list[str]] = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        several_lines = value.replace("\n", "\n  ")
        sections.setdefault(section, []).append(f"{name} = {several_lines}")
    return "\n".join(line for section, lines in sections.items() for line in (f"[{section}]", *lines, ""))
