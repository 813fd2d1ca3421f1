"""The project's own Dockerfile, built for real by buildah without a daemon. Called by `Node.build_image`.

The build sees the host's certificates, name servers and pip configuration through mounts: none ends up in the image.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster.commands import need_program, run
from tests.support.cluster.images import BASE_IMAGE, base_archive
from tests.support.cluster.pip_settings import pip_mounts

BUILD_SECONDS = 1800


@dataclass(frozen=True)
class ImageBuilder:
    """buildah with its own storage, kept for one session so that stages are shared between builds."""

    folder: Path

    def build(self, dockerfile: Path, context: Path, target: str, build_args: Mapping[str, str], tag: str) -> Path:
        """Build one target and return it as a docker-archive; every stage may start `FROM ${BASE_IMAGE}`."""
        self._pull_base()
        arguments = {"BASE_IMAGE": BASE_IMAGE, **build_args}
        run(
            *self._buildah("build"),
            *("--isolation=chroot", "--network=host", "--pull-never", "--layers"),
            *[f"--build-arg={key}={value}" for key, value in arguments.items()],
            *[f"--volume={mount}" for mount in self._mounts()],
            *(f"--target={target}", f"--file={dockerfile}", f"--tag={tag}", str(context)),
            timeout=BUILD_SECONDS,
        )
        archive = self.folder / f"{target}.tar"
        archive.unlink(missing_ok=True)
        run(*self._buildah("push"), tag, f"docker-archive:{archive}:{tag}")
        return archive

    def _pull_base(self) -> None:
        if not run(*self._buildah("images"), "--quiet", "--filter", f"reference={BASE_IMAGE}").strip():
            run(*self._buildah("pull"), f"docker-archive:{base_archive()}")

    def _mounts(self) -> list[str]:
        shared = [Path("/etc/ssl/certs"), Path("/etc/resolv.conf")]
        return [f"{path}:{path}:ro" for path in shared if path.exists()] + pip_mounts(self.folder)

    def _buildah(self, verb: str) -> list[str]:
        program = need_program("buildah", "apt-get install buildah")
        return [program, f"--root={self.folder}/storage", f"--runroot={self.folder}/run", verb]
