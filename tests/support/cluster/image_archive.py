"""Container images without a registry: a root file system packed as a docker-archive. Called by `images.py`.

containerd and buildah both read that format.
"""

import hashlib
import io
import json
import os
import platform
import tarfile
from pathlib import Path
from typing import Any

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_image(layer: Path, name: str, run: dict[str, Any], archive: Path) -> Path:
    """Pack one layer (a tar) with its run configuration under a name; the archive appears only when complete."""
    digest = _sha256(layer)
    configuration = json.dumps(
        {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": run,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            "history": [{"created_by": "tests/support/cluster"}],
        }
    ).encode()
    config_name = f"{hashlib.sha256(configuration).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    unfinished = archive.with_suffix(".unfinished")
    with tarfile.open(unfinished, "w") as tar:
        _add_bytes(tar, config_name, configuration)
        tar.add(layer, f"{digest}/layer.tar")
        _add_bytes(tar, "manifest.json", json.dumps(manifest).encode())
    os.replace(unfinished, archive)
    return archive


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
