"""`trial` and `pod`: what a trial Pod runs and where. Read by `acceptance` and `manifests`."""

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from tunewright.adapters.kube.spec.base import (
    ATOMIC,
    KeyRef,
    ObjectName,
    PresetName,
    map_by,
    rule,
    unique_by,
    validated,
)
from tunewright.adapters.kube.spec.names import (
    LABEL_KEY_PATTERN,
    RESOURCE_PATTERN,
    ExtendedResource,
    LabelKey,
    LabelValue,
    Quantity,
    QueueName,
    ResourceName,
    keys_rule,
    request_fault,
)
from tunewright.domain.value import Value

OWN_VOLUMES = {"shared-memory": "/dev/shm", "scratch": "/tmp"}
"""Volumes that every trial has, and where."""
_ONE_SOURCE = "set exactly one of value and secretKeyRef"
_OWN_VARIABLE = "names that start with TUNEWRIGHT_ are the trial program's own: choose another name"
_OWN_VOLUME = f"every trial has the volumes {', '.join(OWN_VOLUMES)} and their paths: choose another name and path"
_OWN_RESOURCE = "leave amd.com/... out: the operator asks for whole nodes"
_FOREIGN_RESOURCE = "is Kubernetes' own: name an extended resource such as amd.com/gpu"
_RESOURCE_KEYS = "keys are cpu, memory, ephemeral-storage, hugepages-2Mi, or extended resources such as example.com/nic"
HEALTH_TAINTS = ("amd-gpu-unhealthy", "amd-dcm")
"""Of AMD's GPU operator (github.com/ROCm/gpu-operator): a fault was found, or the device is being partitioned."""
_HEALTH = f"name a key other than {' and '.join(HEALTH_TAINTS)}: nodes with these taints are not fit to be measured on"
_NO_VALUE = "operator Exists takes no value: remove it"
_EVICTION = "tolerationSeconds needs effect NoExecute"


class EnvVar(Value):
    """One environment variable of the trial."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule("has(self.value) != has(self.secretKeyRef)", message=_ONE_SOURCE),
            rule("!self.name.startsWith('TUNEWRIGHT_')", message=_OWN_VARIABLE),
        )
    )
    name: str = Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Its name.")
    value: str | None = Field(None, max_length=4096, description="Its value; who may read the run can read it.")
    secret_key_ref: KeyRef | None = Field(None, description="Key of a Secret in the run's namespace.")

    @model_validator(mode="after")
    def _is_one(self) -> "EnvVar":
        if (self.value is None) == (self.secret_key_ref is None):
            raise ValueError(_ONE_SOURCE)
        if self.name.startswith("TUNEWRIGHT_"):
            raise ValueError(_OWN_VARIABLE)
        return self


class ClaimVolume(Value):
    """A PersistentVolumeClaim of the namespace, mounted into the trial."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                f"!(self.name in {list(OWN_VOLUMES)}) && !(self.mountPath in {list(OWN_VOLUMES.values())})",
                message=_OWN_VOLUME,
            )
        )
    )
    name: str = Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    claim_name: ObjectName = Field(description="The claim.")
    mount_path: str = Field(min_length=1, max_length=1024, pattern=r"^/[^:]*$", description="Where trials see it.")
    read_only: bool | None = Field(None, description="Default: it can be written to.")

    @model_validator(mode="after")
    def _is_another(self) -> "ClaimVolume":
        if self.name in OWN_VOLUMES or self.mount_path in OWN_VOLUMES.values():
            raise ValueError(_OWN_VOLUME)
        return self


class ResourcesSpec(Value):
    """CPU, memory and disk of a trial. Accelerators are asked for by the operator."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                "[has(self.requests) ? self.requests : {}, has(self.limits) ? self.limits : {}]"
                ".all(m, m.all(k, !k.startsWith('amd.com/')))",
                message=_OWN_RESOURCE,
            )
        )
    )
    requests: dict[ResourceName, Quantity] | None = Field(
        None, max_length=16, json_schema_extra=validated(keys_rule(RESOURCE_PATTERN, _RESOURCE_KEYS))
    )
    limits: dict[ResourceName, Quantity] | None = Field(
        None, max_length=16, json_schema_extra=validated(keys_rule(RESOURCE_PATTERN, _RESOURCE_KEYS))
    )

    @model_validator(mode="after")
    def _is_schedulable(self) -> "ResourcesSpec":
        requests, limits = self.requests or {}, self.limits or {}
        if any(name.startswith("amd.com/") for name in (*requests, *limits)):
            raise ValueError(_OWN_RESOURCE)
        if fault := request_fault(requests, limits):
            raise ValueError(fault)
        return self


class TrialSpec(Value):
    """What is measured. Immutable: results depend on it."""

    runner: Literal["Builtin"] = Field("Builtin", description="Builtin: the project's own torch program.")
    device_preset: PresetName | None = Field(
        None, description="What the Pods must find; default: cluster.accelerator. cpu on stand-in nodes."
    )
    image: str | None = Field(
        None, min_length=1, max_length=512, pattern=r"^[^\s]+$", description="Default: the operator's trial image."
    )
    prewarm: bool = Field(
        False, description="Pull the image on every node that trials may use before the first of them starts."
    )
    command: tuple[Annotated[str, StringConstraints(max_length=512)], ...] = Field(
        ("python", "-m", "tunewright_trial"),
        min_length=1,
        max_length=16,
        description="Starts the trial program in the image.",
        json_schema_extra=ATOMIC,
    )
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64), unique_by("name")] = Field(
        (), description="Variables of every trial, besides the chart's.", json_schema_extra=map_by("name")
    )
    volumes: Annotated[tuple[ClaimVolume, ...], Field(max_length=16), unique_by("name", "mount_path")] = Field(
        (),
        json_schema_extra=map_by("name")
        | validated(
            rule(
                "self.all(volume, self.exists_one(other, other.mountPath == volume.mountPath))",
                message="a mountPath is given twice",
            )
        ),
    )
    resources: ResourcesSpec | None = None


class TolerationSpec(Value):
    """A Kubernetes toleration. Without a key it would tolerate every taint, those of faulty devices too."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(f"has(self.key) && !(self.key in {list(HEALTH_TAINTS)})", message=_HEALTH),
            rule("!has(self.value) || !has(self.operator) || self.operator == 'Equal'", message=_NO_VALUE),
            rule("!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')", message=_EVICTION),
        )
    )
    key: LabelKey | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = Field(None, ge=0, le=31_536_000)

    @model_validator(mode="after")
    def _is_one(self) -> "TolerationSpec":
        if self.key is None or self.key in HEALTH_TAINTS:
            raise ValueError(_HEALTH)
        if self.value is not None and self.operator == "Exists":
            raise ValueError(_NO_VALUE)
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            raise ValueError(_EVICTION)
        return self


class PullSecret(Value):
    """A Secret of type kubernetes.io/dockerconfigjson."""

    name: ObjectName


def _extended(name: str) -> str:
    if name.startswith("requests.") or "kubernetes.io/" in name:
        raise ValueError(_FOREIGN_RESOURCE)
    return name


class PodSpec(Value):
    """Where trial Pods run and for how long. Mutable: holds from the next attempt on."""

    resource_name: Annotated[ExtendedResource, AfterValidator(_extended)] = Field(
        "amd.com/gpu",
        json_schema_extra=validated(
            rule("!self.startsWith('requests.') && !self.contains('kubernetes.io/')", message=_FOREIGN_RESOURCE)
        ),
    )
    node_selection: Literal["DeviceID", "SelectorOnly"] = Field(
        "DeviceID", description="DeviceID: nodes by the accelerator's PCI id; SelectorOnly: nodeSelector alone."
    )
    node_selector: dict[LabelKey, LabelValue] = Field(
        default_factory=dict,
        max_length=32,
        json_schema_extra=validated(keys_rule(LABEL_KEY_PATTERN, "keys are label names such as example.com/pool")),
    )
    tolerations: tuple[TolerationSpec, ...] = Field(
        (), max_length=16, description="Taints of nodes that are reserved for such work.", json_schema_extra=ATOMIC
    )
    require_validated: bool = Field(
        False,
        description="Only nodes that AMD's cluster validation passed. Nodes that it failed are avoided in any case.",
    )
    priority_class_name: ObjectName | None = Field(
        None, description="PriorityClass of every trial Pod; a low one lets production preempt tuning."
    )
    queue_name: QueueName | None = Field(
        None, description="LocalQueue of Kueue that every trial Job is given to. Waiting there is no time of the run."
    )
    image_pull_secrets: Annotated[tuple[PullSecret, ...], Field(max_length=16), unique_by("name")] = Field(
        (), description="Secrets of the namespace that pull the image.", json_schema_extra=map_by("name")
    )
    supplemental_groups: tuple[Annotated[int, Field(ge=0, le=2**31 - 1)], ...] = Field(
        (), max_length=8, description="Host groups that own /dev/kfd (render, video).", json_schema_extra=ATOMIC
    )
    start_deadline_seconds: int = Field(2700, ge=10, le=86_400, description="From the Job's creation to its start.")
    run_deadline_seconds: int = Field(1200, ge=10, le=604_800, description="From a trial's start to its end.")
    capacity_check: Literal["Require", "Warn"] = Field(
        "Require", description="Require: no trial before its nodes are free; Warn: for autoscaled clusters."
    )
