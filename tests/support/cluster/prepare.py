"""Builds once what the cluster and e2e tests stand on, before any test's clock runs. Called by `make packages`.

What is missing on this machine is told in one line and left to the tests, which skip or, under CI, fail.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.cluster.binaries import ensure_argo_cd_binary, ensure_go_tool, ensure_kubernetes_binary
from tests.support.cluster.errors import HarnessError, MissingPart
from tests.support.cluster.images import base_archive, pause_archive

PARTS: dict[str, Callable[[], Path]] = {
    "kubernetes": ensure_kubernetes_binary,
    "coredns": lambda: ensure_go_tool("coredns"),
    "helm": lambda: ensure_go_tool("helm"),
    "helm 3": lambda: ensure_go_tool("helm3"),
    "kueue": lambda: ensure_go_tool("kueue"),
    "argo cd": ensure_argo_cd_binary,
    "pause image": pause_archive,
    "base image": base_archive,
}


def main() -> None:
    """Build every part that this machine can."""
    for name, build in PARTS.items():
        started = time.monotonic()
        try:
            build()
        except (HarnessError, MissingPart) as error:
            sys.stdout.write(f"{name}: not built: {error}\n")
        else:
            sys.stdout.write(f"{name}: ready in {time.monotonic() - started:.0f} s\n")


if __name__ == "__main__":
    main()
