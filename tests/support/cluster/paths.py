"""Where the harness finds the repository and keeps what is built once: called by everything that builds or caches.

The cache is the repository's `.cache/`, or `$TUNEWRIGHT_TEST_CACHE` where several checkouts share one.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
GO_MODULE = REPOSITORY / "tests" / "cluster" / "kubernetes"
ARGO_CD_MODULE = REPOSITORY / "tests" / "cluster" / "argo_cd"


def cache_root() -> Path:
    """Return the folder for build outputs that later runs reuse."""
    given = os.environ.get("TUNEWRIGHT_TEST_CACHE")
    return Path(given).resolve() if given else REPOSITORY / ".cache"


def digest_of(*files: Path) -> str:
    """Return a short name for the contents of these files."""
    joined = hashlib.sha256()
    for file in files:
        joined.update(hashlib.sha256(file.read_bytes()).digest())
    return joined.hexdigest()[:16]


@contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """Hold a folder of the cache alone, so that parallel callers wait for the first one's build."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
