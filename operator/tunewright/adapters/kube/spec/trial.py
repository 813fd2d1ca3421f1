"""`trial` and `pod`: what a trial Pod runs and where. Read by `acceptance` and `manifests`."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from tunewright.adapters.kube.spec.base import (
    ATOMIC,
    KeyRef,
    ObjectName,
    PresetName,
    map_by,
    rule,
    validated,
)
from tunewright.domain.value import Value

LabelText = Annotated[str, StringConstraints(max_length=317)]
LabelValue = Annotated[str, StringConstraints(max_length=63)]
Quantity = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?([EPTGMk]i?|m)?$", max_length=24)]
_ONE_SOURCE = "set exactly one of value and secretKeyRef"


class EnvVar(Value):
    """One environment variable of the trial."""

    model_config = ConfigDict(
        json_schema_extra=validated(rule("has(self.value) != has(self.secretKeyRef)", message=_ONE_SOURCE))
    )
    name: str = Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    value: str | None = Field(None, max_length=4096)
    secret_key_ref: KeyRef | None = None

    @model_validator(mode="after")
    def _is_one(self) -> "EnvVar":
        if (self.value is None) == (self.secret_key_ref is None):
            raise ValueError(_ONE_SOURCE)
        return self


class ClaimVolume(Value):
    """A PersistentVolumeClaim of the namespace, mounted into the trial."""

    name: str = Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    claim_name: ObjectName
    mount_path: str = Field(min_length=1, max_length=1024, pattern=r"^/[^:]*$")
    read_only: bool | None = None


class ResourcesSpec(Value):
    """CPU, memory and disk of a trial. Accelerators are asked for by the operator."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                "[has(self.requests) ? self.requests : {}, has(self.limits) ? self.limits : {}]"
                ".all(m, m.all(k, !k.startsWith('amd.com/')))",
                message="leave amd.com/… out: the operator asks for whole nodes",
            )
        )
    )
    requests: dict[LabelText, Quantity] | None = Field(None, max_length=16)
    limits: dict[LabelText, Quantity] | None = Field(None, max_length=16)


class TrialSpec(Value):
    """What is measured. Immutable: results depend on it."""

    runner: Literal["Builtin"] = Field("Builtin", description="Builtin: the project's own torch program.")
    device_preset: PresetName | None = Field(
        None, description="What the Pods must find; default: cluster.accelerator. cpu on stand-in nodes."
    )
    image: str | None = Field(None, min_length=1, max_length=512, description="Default: the operator's trial image.")
    command: tuple[Annotated[str, StringConstraints(max_length=512)], ...] = Field(
        ("python", "-m", "tunewright_trial"),
        min_length=1,
        max_length=16,
        description="Starts the trial program in the image.",
        json_schema_extra=ATOMIC,
    )
    env: tuple[EnvVar, ...] = Field((), max_length=64, json_schema_extra=map_by("name"))
    volumes: tuple[ClaimVolume, ...] = Field((), max_length=16, json_schema_extra=map_by("name"))
    resources: ResourcesSpec | None = None


class TolerationSpec(Value):
    """A Kubernetes toleration."""

    key: str | None = Field(None, max_length=317)
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = Field(None, max_length=63)
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = Field(None, ge=0, le=31_536_000)


class PullSecret(Value):
    """A Secret of type kubernetes.io/dockerconfigjson."""

    name: ObjectName


class PodSpec(Value):
    """Where trial Pods run and for how long. Mutable: holds from the next attempt on."""

    resource_name: str = Field("amd.com/gpu", min_length=1, max_length=317, pattern=r"^[^/]+/[^/]+$")
    node_selection: Literal["DeviceID", "SelectorOnly"] = Field(
        "DeviceID", description="DeviceID: nodes by the accelerator's PCI id; SelectorOnly: nodeSelector alone."
    )
    node_selector: dict[LabelText, LabelValue] = Field(default_factory=dict, max_length=32)
    tolerations: tuple[TolerationSpec, ...] = Field((), max_length=16, json_schema_extra=ATOMIC)
    image_pull_secrets: tuple[PullSecret, ...] = Field((), max_length=16, json_schema_extra=map_by("name"))
    supplemental_groups: tuple[int, ...] = Field(
        (), max_length=8, description="Host groups that own /dev/kfd (render, video).", json_schema_extra=ATOMIC
    )
    start_deadline_seconds: int = Field(2700, ge=10, le=86_400, description="From the Job's creation to its start.")
    run_deadline_seconds: int = Field(1200, ge=10, le=604_800)
    capacity_check: Literal["Require", "Warn"] = Field(
        "Require", description="Require: no trial before its nodes are free; Warn: for autoscaled clusters."
    )
