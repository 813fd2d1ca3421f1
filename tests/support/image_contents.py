"""What is in a built image: its configuration and every file, read from the docker-archive that buildah writes."""

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import Any

_WHITEOUT = ".wh."
_LARGEST_READ = 1 << 20


@dataclass(frozen=True)
class ImageContents:
    """`files` maps each path, without a leading slash, to its size; what a later layer removed is not there."""

    configuration: dict[str, Any]
    files: dict[str, int]
    texts: dict[str, bytes]
    """The contents of files of at most 1 MiB."""

    @property
    def size_bytes(self) -> int:
        """All files together, unpacked."""
        return sum(self.files.values())

    def packages(self) -> set[tuple[str, str]]:
        """Return the Python distributions, by normalised name and version."""
        found = [text for path, text in self.texts.items() if path.endswith(".dist-info/METADATA")]
        headers = [HeaderParser().parsestr(text.decode(errors="replace")) for text in found]
        return {(normalised(str(one["Name"])), str(one["Version"])) for one in headers}


def normalised(name: str) -> str:
    """Return the name of a distribution as indexes compare it."""
    return name.lower().replace("_", "-").replace(".", "-")


def read_image(archive: Path) -> ImageContents:
    """Read an archive with one image."""
    files: dict[str, int] = {}
    texts: dict[str, bytes] = {}
    with tarfile.open(archive) as image:
        (manifest,) = json.loads(_member(image, "manifest.json"))
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=image.extractfile(name)) as layer:
                for path, size, text in _entries(layer):
                    if PurePosixPath(path).name.startswith(_WHITEOUT):
                        _remove(path, files, texts)
                        continue
                    files[path] = size
                    texts.pop(path, None)
                    if text is not None:
                        texts[path] = text
        return ImageContents(json.loads(_member(image, manifest["Config"]))["config"], files, texts)


def _member(image: tarfile.TarFile, name: str) -> bytes:
    opened = image.extractfile(name)
    assert opened is not None, name
    return opened.read()


def _entries(layer: tarfile.TarFile) -> Iterator[tuple[str, int, bytes | None]]:
    for member in layer:
        path = member.name.removeprefix("./")
        if member.isfile():
            opened = layer.extractfile(member) if member.size <= _LARGEST_READ else None
            yield path, member.size, opened.read() if opened else None
        elif PurePosixPath(path).name.startswith(_WHITEOUT) or member.issym():
            yield path, 0, None


def _remove(whiteout: str, files: dict[str, int], texts: dict[str, bytes]) -> None:
    marked = PurePosixPath(whiteout)
    gone = str(marked.parent / marked.name.removeprefix(_WHITEOUT))
    for path in [path for path in files if path == gone or path.startswith(f"{gone}/")]:
        del files[path]
        texts.pop(path, None)
