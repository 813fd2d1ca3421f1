"""What the operator is told by its environment. The chart sets these; read once at start."""

from collections.abc import Mapping
from dataclasses import dataclass

from tunewright.errors import InvalidInput


@dataclass(frozen=True)
class OperatorSettings:
    """`trial_image`: for runs that name none. `probe_port` 0: no probes. `workers`: runs reconciled at once.

    `namespaced`: kopf was started for some namespaces only, and may have no rights beyond them.
    """

    trial_image: str = ""
    probe_port: int = 8080
    workers: int = 8
    resync_seconds: float = 60.0
    namespaced: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "OperatorSettings":
        """Read the variables; raise `InvalidInput` naming the one that is no number."""
        return cls(
            trial_image=environment.get("TUNEWRIGHT_TRIAL_IMAGE", ""),
            probe_port=_whole_number(environment, "TUNEWRIGHT_PROBE_PORT", cls.probe_port),
            workers=max(1, _whole_number(environment, "TUNEWRIGHT_WORKERS", cls.workers)),
            resync_seconds=max(1, _whole_number(environment, "TUNEWRIGHT_RESYNC_SECONDS", int(cls.resync_seconds))),
            namespaced=environment.get("TUNEWRIGHT_NAMESPACED", "") == "true",
        )


def _whole_number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, str(default))
    if not text.isdigit():
        raise InvalidInput.of(name, text, "must be a whole number")
    return int(text)
