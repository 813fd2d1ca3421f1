"""What the Dockerfile promises without being built; tests/e2e builds it and looks into the images."""

import re
from collections.abc import Mapping
from importlib.metadata import requires
from pathlib import Path

DOCKERFILE = Path(__file__).parents[2] / "Dockerfile"
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
