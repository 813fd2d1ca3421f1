"""`tunewright support-bundle`: what explains a run of the cluster, in one archive without secrets."""

import asyncio
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from tunewright.adapters.kube.client import connected
from tunewright.adapters.kube.support import gather
from tunewright.cli.arguments import namespace_and_name
from tunewright.cli.console import messages
from tunewright.errors import InvalidInput


def run_support_bundle(key: str, out: Path, operator_namespace: str) -> None:
    """Gather with your kubeconfig, and write a .tar.gz; say what is in it."""
    namespace, name = namespace_and_name(key)
    files = asyncio.run(_gathered(namespace, name, operator_namespace))
    try:
        out.write_bytes(archive(name, files))
    except OSError as error:
        raise InvalidInput.of("--out", str(out), f"cannot be written: {error.strerror}") from None
    messages.print(f"wrote {out}: {', '.join(files)}", soft_wrap=True, markup=False)
    messages.print("look through it before you send it to somebody: it has host names and what trials printed")


async def _gathered(namespace: str, name: str, operator_namespace: str) -> dict[str, str]:
    async with connected() as client:
        return await gather(client, namespace, name, operator_namespace)


def archive(folder: str, files: Mapping[str, str]) -> bytes:
    """Return a .tar.gz with the files below `folder`."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as tar:
        for path, text in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(f"{folder}/{path}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return written.getvalue()
