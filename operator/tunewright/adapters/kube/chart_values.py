"""The values of the Helm chart, typed, with their defaults. Read by `chart_schema`.

`values.yaml` is written by hand, for its comments and order; a test holds it against these defaults.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints

from tunewright.adapters.kube.chart_telemetry import LogValues, MetricsValues
from tunewright.adapters.kube.spec.base import ObjectName
from tunewright.adapters.kube.spec.search import LLMSpec, PriceSpec
from tunewright.adapters.kube.spec.site import Allowed, NamespaceLimit
from tunewright.adapters.kube.spec.trial import PodSpec, PullSecret
from tunewright.domain.value import Value

Document = dict[str, Any]
OptionalName = Annotated[str, StringConstraints(max_length=253, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$")]
NamespaceName = Annotated[str, StringConstraints(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
Reference = Annotated[str, StringConstraints(max_length=512, pattern=r"^\S*$")]
PresetTexts = dict[
    Annotated[str, StringConstraints(max_length=63, pattern=r"^[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?$")],
    Annotated[str, StringConstraints(min_length=1)],
]
Environment = dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str]


class GlobalValues(Value):
    """What a parent chart shares with its parts; other keys are its own business."""

    model_config = ConfigDict(extra="allow")
    image_registry: Reference = Field(
        "", description="Registry of every image, in place of the one in its name: for mirrors without internet access."
    )


class ImageValues(Value):
    """The operator's image."""

    registry: Reference = Field("", description="Such as registry.example.com; empty: the nodes' default.")
    repository: Reference = Field("tunewright-operator", min_length=1)
    tag: str = Field("", pattern=r"^[\w.-]*$", max_length=128, description="Empty: the chart's appVersion.")
    digest_: str = Field(
        "", alias="digest", pattern=r"^(sha256:[0-9a-f]{64})?$", description="sha256:…, wins over the tag."
    )
    pull_policy: Literal["IfNotPresent", "Always", "Never"] = "IfNotPresent"
    pull_secrets: tuple[PullSecret, ...] = Field((), description="Of the operator's Pod; trials: trial.pod.")


class CRDValues(Value):
    """The CustomResourceDefinition."""

    enabled: bool = Field(True, description="Render it with the release.")
    keep: bool = Field(True, description="Leave it, and every TuningRun, when the release is uninstalled.")
    annotations: dict[str, str] = Field(
        default_factory=dict, description="Such as argocd.argoproj.io/sync-options: ServerSideApply=true."
    )


class WatchValues(Value):
    """Whose TuningRuns are tuned."""

    namespaces: tuple[NamespaceName, ...] = Field(
        (), description="Empty: those of the whole cluster; otherwise these, with Roles in just these."
    )


class TrialValues(Value):
    """What trials have where their run says nothing else. Holds from the next attempt on."""

    image: Reference = Field("", description="For runs that name none; a run keeps the one that it started with.")
    pod: PodSpec = Field(
        PodSpec(),
        description="Placement, queue, deadlines, pull secrets, in the words of a run's spec.pod; a field holds where"
        " the run has the schema's default.",
    )
    network_profile: str = Field("", description="The entry of networkProfiles that every trial gets.")
    network_profiles: dict[str, Environment] = Field(
        default_factory=lambda: NETWORK_PROFILES,
        description="Environment variables by profile; a run's own trial.env wins. Interfaces are yours to add:"
        " NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, NCCL_IB_HCA.",
    )


NETWORK_PROFILES: dict[str, Environment] = {
    "sockets": {"NCCL_IB_DISABLE": "1"},
    "roce": {
        "NCCL_CROSS_NIC": "0",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_IB_RETRY_CNT": "11",
        "NCCL_IB_TIMEOUT": "23",
        "NCCL_PXN_DISABLE": "1",
    },
    "pollara": {
        "IONIC_LOCKFREE": "all",
        "NCCL_DMABUF_ENABLE": "0",
        "NCCL_GDR_FLUSH_DISABLE": "1",
        "NCCL_IB_GID_INDEX": "1",
        "NCCL_IB_USE_INLINE": "1",
        "NCCL_NET_OPTIONAL_RECV_COMPLETION": "0",
        "NCCL_PXN_DISABLE": "0",
        "USING_AINIC": "1",
    },
}
"""Of AMD-AGI/Primus, runner/helpers/envs and the hook that enables AINIC: they differ in GID index and PXN."""


class KeyOfSecret(Value):
    """One key of a Secret of the release's namespace."""

    name: OptionalName = Field("", description="Empty: no key.")
    key: str = Field("apiKey", min_length=1, pattern=r"^[-._a-zA-Z0-9]+$")


class GrantedSecret(Value):
    """A Secret that runs of its namespace may name."""

    namespace: NamespaceName
    name: ObjectName


class CatalogValues(Value):
    """Presets of your own beside the built-in ones, for runs to name. Another one restarts the operator."""

    accelerators: PresetTexts = Field(
        default_factory=dict,
        description="By name, the text of its file: `--set-file catalog.accelerators.NAME=FILE`.",
    )
    networks: PresetTexts = Field(default_factory=dict, description="The same for networks.")
    models: PresetTexts = Field(default_factory=dict, description="The same for models.")


class LLMValues(Value):
    """The operator's own endpoint: for runs with explore.strategy LLM that have no spec.llm."""

    model: str = Field(
        "", max_length=256, description="LiteLLM name, such as openai/gpt-5; empty: such runs use the surrogate alone."
    )
    api_base: str = Field("", pattern=r"^(https?://\S+)?$", description="Empty: the provider's own address.")
    secret: KeyOfSecret = Field(
        KeyOfSecret(),
        description="Its key goes to this endpoint and nowhere else. Restart the operator after a change.",
    )
    timeout_seconds: int = Field(LLMSpec.model_fields["timeout_seconds"].default, ge=1, le=3600)
    max_output_tokens: int = Field(LLMSpec.model_fields["max_output_tokens"].default, ge=16, le=131_072)
    price: PriceSpec | Annotated[Document, Field(max_length=0)] = Field(
        default_factory=dict,
        description="inputUSDPerMillionTokens and outputUSDPerMillionTokens; runs with a cost limit need it.",
    )
    grant_secrets: tuple[GrantedSecret, ...] = Field(
        (), description="Secrets that runs may name in spec.llm.apiKeySecretRef: the operator may read these, by name."
    )


class NamespaceValues(NamespaceLimit):
    """What all runs of one namespace may use together."""

    max_gpus: int | None = Field(
        None, ge=0, description="Accelerators that its Pods may ask for, by a ResourceQuota: trials wait for room."
    )


class RBACValues(Value):
    """Rights. Their scope follows watch.namespaces."""

    create: bool = True
    aggregate_to_users: bool = Field(
        True, description="Let the cluster roles view, edit and admin see and change TuningRuns."
    )


class ServiceAccountValues(Value):
    """Whose rights the operator has."""

    create: bool = True
    name: OptionalName = Field("", description="Empty: the release's name; without create: default.")
    annotations: dict[str, str] = Field(default_factory=dict)


class NetworkPolicyValues(Value):
    """Who may talk to whom, where the cluster's network enforces it."""

    enabled: bool = Field(False, description="Let the operator reach name servers, the API server and the LLM only.")
    egress_addresses: tuple[str, ...] = Field(
        ("0.0.0.0/0", "::/0"), description="CIDRs of the API server and of LLM endpoints."
    )
    egress_ports: tuple[Annotated[int, Field(ge=1, le=65535)], ...] = (443, 6443)
    trials: bool = Field(
        False,
        description="Let trials reach name servers and each other only; needs watch.namespaces. A trial that fetches"
        " data or a model needs a policy of yours beside it.",
    )


class ChartValues(Value):
    """All values of the chart."""

    global_: GlobalValues = Field(GlobalValues(), alias="global")
    image: ImageValues = ImageValues()
    crds: CRDValues = CRDValues()
    watch: WatchValues = WatchValues()
    trial: TrialValues = TrialValues()
    catalog: CatalogValues = CatalogValues()
    llm: LLMValues = LLMValues()
    allow: Allowed = Field(Allowed(), description="What runs may name; an empty list allows everything.")
    namespace_limits: tuple[NamespaceValues, ...] = Field(
        (), description="By namespace: maxGPUs, maxLLMCostUSD, for all its runs together."
    )
    rbac: RBACValues = RBACValues()
    service_account: ServiceAccountValues = ServiceAccountValues()
    network_policy: NetworkPolicyValues = NetworkPolicyValues()
    logs: LogValues = LogValues()
    metrics: MetricsValues = MetricsValues()
    resources: Document = Field(
        default_factory=lambda: {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}
    )
    node_selector: dict[str, str] = Field(default_factory=dict, description="Of the operator's Pod; trials: trial.pod.")
    tolerations: tuple[Document, ...] = Field((), description="Of the operator's Pod.")
    affinity: Document = Field(default_factory=dict, description="Of the operator's Pod.")
    priority_class_name: OptionalName = Field("", description="Of the operator's Pod.")
    extra_env: tuple[Document, ...] = Field((), description="Variables of the operator, such as HTTPS_PROXY.")
