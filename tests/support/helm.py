"""The chart, rendered or installed with a real helm."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.support.cluster.binaries import ensure_go_tool
from tests.support.cluster.paths import REPOSITORY

CHART = REPOSITORY / "charts" / "tunewright"


def helm(*arguments: str | Path) -> str:
    """Run helm and return what it printed; its complaint becomes the error."""
    done = subprocess.run(
        [ensure_go_tool("helm"), *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(namespace: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the objects of a release called tunewright."""
    text = helm("template", "tunewright", CHART, "--namespace", namespace, *arguments)
    return [document for document in yaml.safe_load_all(text) if document]
