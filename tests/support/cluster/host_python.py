"""The Python of the tests, with torch, inside Pods: mounted read-only at the same paths instead of put into an image.

Called by tests that run trials. hostPath volumes are refused by Pod Security above `privileged`: keep such Pods in a
namespace without that label.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cluster.paths import REPOSITORY

SOURCE_ROOTS = ("operator", "trial_runner")


@dataclass(frozen=True)
class PodMounts:
    """Parts of a Pod's template: volumes, mounts and environment of its container, and the interpreter to run."""

    volumes: list[dict[str, Any]]
    volume_mounts: list[dict[str, Any]]
    env: list[dict[str, str]]
    python: str


def host_python_mounts() -> PodMounts:
    """Return what a Pod needs to run this very Python, its packages and the repository's code."""
    sources = [REPOSITORY / name for name in SOURCE_ROOTS]
    # /usr/lib: the interpreter's shared libraries, in the versions that it was linked with.
    wanted = [Path(sys.prefix), Path(sys.base_prefix), Path("/usr/lib"), *sources]
    folders = without_nested([path for path in wanted if path.is_dir()])
    return PodMounts(
        volumes=[_volume(index, path) for index, path in enumerate(folders)],
        volume_mounts=[_mount(index, path) for index, path in enumerate(folders)],
        env=[
            {"name": "PYTHONPATH", "value": ":".join(map(str, sources))},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
        ],
        python=sys.executable,
    )


def without_nested(folders: list[Path]) -> list[Path]:
    """Drop folders that another one holds.

    >>> [str(path) for path in without_nested([Path("/a"), Path("/a/b"), Path("/c"), Path("/a")])]
    ['/a', '/c']
    """
    distinct = sorted(set(folders))
    return [path for path in distinct if not any(other in path.parents for other in distinct)]


def _volume(index: int, path: Path) -> dict[str, Any]:
    return {"name": f"host-python-{index}", "hostPath": {"path": str(path), "type": "Directory"}}


def _mount(index: int, path: Path) -> dict[str, Any]:
    return {"name": f"host-python-{index}", "mountPath": str(path), "readOnly": True}
