"""What the Dockerfile promises without being built; tests/e2e builds it and looks into the images."""

import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import requires
from pathlib import Path

import pytest

DOCKERFILE = Path(__file__).parents[2] / "Dockerfile"
GLIBC_OF_ARM64 = ("2014", "_2_17", "_2_28", "_2_31", "_2_34")
"""Of manylinux: what the default base, Debian 12 or newer, can load."""
_STAGE = re.compile(r"^FROM (\S+) AS (\S+)$", re.MULTILINE)


def instructions() -> str:
    """The file without its comments, continued lines joined."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    return "\n".join(lines).replace("\\\n", " ")


def stages() -> Mapping[str, tuple[str, str]]:
    """Each stage's base and instructions, by name."""
    _, *parts = _STAGE.split(instructions())
    return {name: (base, body) for base, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


def test_every_stage_starts_from_an_argument_another_stage_or_nothing() -> None:
    declared = set(re.findall(r"^ARG (\w+_BASE_IMAGE)=", instructions().split("FROM", 1)[0], re.MULTILINE))
    assert declared == {"BUILDER_BASE_IMAGE", "OPERATOR_BASE_IMAGE", "TRIAL_BASE_IMAGE"}
    allowed = {*(f"${{{name}}}" for name in declared), *stages(), "scratch"}
    assert {base for base, _ in stages().values()} <= allowed


def test_no_step_depends_on_the_processor() -> None:
    assert re.findall(r"amd64|x86_64|arm64|aarch64|TARGETARCH", instructions()) == []


@pytest.mark.long
def test_every_package_of_the_operator_has_a_wheel_for_arm64(tmp_path: Path) -> None:
    """Asks the package index. What has none would have to be compiled, and the image has no compiler."""

    def pip(*words: str | Path) -> None:
        command = [sys.executable, "-m", "pip", *map(str, words)]
        done = subprocess.run(command, cwd=DOCKERFILE.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    pip("wheel", "--no-deps", "--wheel-dir", tmp_path, ".")
    (wheel,) = tmp_path.glob("tunewright-*.whl")
    platforms = [f"--platform=manylinux{glibc}_aarch64" for glibc in GLIBC_OF_ARM64]
    place = ["--python-version=3.11", "--only-binary=:all:", "--target", str(tmp_path / "at"), *platforms]
    pip("install", "--dry-run", "--constraint", "constraints.txt", *place, f"{wheel}[operator]")


def test_the_trial_image_installs_the_wheel_and_nothing_else() -> None:
    _, body = stages()["trial"]
    (installed,) = re.findall(r"pip install ([^&\n]+)", body)
    assert [word for word in installed.split() if not word.startswith("--")] == ["/wheels/tunewright-*.whl"]


def test_the_wheel_alone_asks_for_no_framework() -> None:
    plain = {re.split(r"[<>=!~ ;]", line)[0] for line in requires("tunewright") or () if "extra ==" not in line}
    assert plain == {"numpy", "pydantic", "pyyaml"}


def test_images_run_as_nobody_in_particular() -> None:
    for name in ("operator", "trial"):
        users = re.findall(r"^USER (\S+)$", stages()[name][1], re.MULTILINE)
        assert users == ["65532:65532"]
