"""Builders of the objects that a run creates: plain values in, plain documents out. Called by `trials` and `ledger`."""

from base64 import b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.affinity import node_affinity
from tunewright.adapters.kube.multi_node import over_nodes
from tunewright.adapters.kube.names import RunReference, ledger_shard_name, result_name, trial_job_name
from tunewright.adapters.kube.spec.trial import EnvVar, PodSpec, TrialSpec
from tunewright.trial_protocol.codec import encode_request
from tunewright.trial_protocol.request import TrialRequest

Document = dict[str, Any]

CONTAINER = "trial"
REQUEST_VARIABLE = "TUNEWRIGHT_REQUEST_JSON"
LEDGER_KEY = "records.jsonl"
SCRATCH = "/tmp"
_USER_ID = 1000
_LOST_NODE_SECONDS = 60
_TERMINATION_GRACE_SECONDS = 10
CONTAINER_SECURITY: Document = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_KEEP_IN_PLACE = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}


@dataclass(frozen=True)
class PodOptions:
    """What trial Pods look like: the user's part of the spec with everything resolved."""

    image: str
    trial: TrialSpec
    pod: PodSpec
    gpus_per_node: int
    pci_device_ids: tuple[str, ...]


def trial_job(
    run: RunReference, request: TrialRequest, options: PodOptions, avoided_nodes: Collection[str] = ()
) -> Document:
    """Return the Job of one attempt. It never restarts anything by itself: a new attempt is a new Job.

    Its Pods go to none of `avoided_nodes`. A Job for a queue is created suspended: the queue lets it run.
    """
    own_labels = labels.trial_labels(run, request.identity)
    queue = options.pod.queue_name
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": trial_job_name(run, request.identity),
            "namespace": run.namespace,
            "labels": own_labels | ({labels.QUEUE: queue} if queue else {}),
            "annotations": {labels.CONFIG_DIGEST: request.identity.config_digest},
            "ownerReferences": [labels.owner_reference(run)],
        },
        "spec": {
            **({"suspend": True} if queue else {}),
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 0,
            # Only the backstop for a Job that no operator looks after; the operator keeps both clocks itself.
            "activeDeadlineSeconds": options.pod.start_deadline_seconds + options.pod.run_deadline_seconds,
            "podFailurePolicy": {
                "rules": [
                    {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
            "template": {
                "metadata": {"labels": own_labels, "annotations": dict(_KEEP_IN_PLACE)},
                "spec": _pod_spec(request, options, avoided_nodes),
            },
        },
    }
    if request.nodes == 1:
        return job
    return over_nodes(job, run, request.nodes, options.pod.start_deadline_seconds)


def ledger_shard(run: RunReference, number: int, text: str, *, keep: bool = False) -> Document:
    """Return one ConfigMap of the ledger: records as JSON lines. With `keep` it outlives the run."""
    return _config_map(run, ledger_shard_name(run, number), "ledger", {LEDGER_KEY: text}, keep=keep)


def result_config_map(
    run: RunReference, files: dict[str, str], binary: Mapping[str, bytes] | None = None, *, keep: bool = False
) -> Document:
    """Return the ConfigMap with the results, one key a file. With `keep` it outlives the run."""
    document = _config_map(run, result_name(run), "result", files, keep=keep)
    if binary:
        document["binaryData"] = {name: b64encode(content).decode() for name, content in binary.items()}
    return document


def _config_map(run: RunReference, name: str, component: str, data: dict[str, str], *, keep: bool) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": run.namespace,
            "labels": labels.run_labels(run, component),
            **labels.ownership(run, keep=keep),
        },
        "data": data,
    }


def _pod_spec(request: TrialRequest, options: PodOptions, avoided_nodes: Collection[str]) -> Document:
    return pod_base(
        options,
        node_affinity(options.pod, options.pci_device_ids, avoided_nodes),
        containers=[_container(request, options)],
        volumes=_volumes(options.trial),
    )


def pod_base(options: PodOptions, affinity: Document | None, **content: Any) -> Document:  # noqa: ANN401 - JSON
    """Return the spec of a Pod that has every right of a trial's and no other; `content` is what it runs."""
    spec: Document = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _TERMINATION_GRACE_SECONDS,
        "securityContext": _pod_security(options.pod),
        "tolerations": _tolerations(options.pod),
        **content,
    }
    if affinity:
        spec["affinity"] = affinity
    if options.pod.priority_class_name:
        spec["priorityClassName"] = options.pod.priority_class_name
    if options.pod.node_selector:
        spec["nodeSelector"] = dict(options.pod.node_selector)
    if options.pod.image_pull_secrets:
        spec["imagePullSecrets"] = [secret.to_json() for secret in options.pod.image_pull_secrets]
    return spec


def _container(request: TrialRequest, options: PodOptions) -> Document:
    return {
        "name": CONTAINER,
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(options.trial.command),
        "env": [
            {"name": REQUEST_VARIABLE, "value": _literal(encode_request(request))},
            {"name": "HOME", "value": SCRATCH},
            {"name": "USER", "value": "tunewright"},  # the image need not know the user id
            *(_env(variable) for variable in options.trial.env),
        ],
        "resources": _resources(options),
        "terminationMessagePolicy": "File",
        "securityContext": dict(CONTAINER_SECURITY),
        "volumeMounts": [
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            {"name": "scratch", "mountPath": SCRATCH},
            *(_mount(volume.name, volume.mount_path, volume.read_only) for volume in options.trial.volumes),
        ],
    }


def _literal(text: str) -> str:
    """Keep the kubelet from expanding ``$(NAME)``."""
    return text.replace("$(", "$$(")


def _env(variable: EnvVar) -> Document:
    if variable.secret_key_ref is None:
        return {"name": variable.name, "value": variable.value}
    return {"name": variable.name, "valueFrom": {"secretKeyRef": variable.secret_key_ref.to_json()}}


def _resources(options: PodOptions) -> Document:
    """Ask for whole nodes: neighbours on the same node would be part of the measurement."""
    gpus = {options.pod.resource_name: str(options.gpus_per_node)}
    given = options.trial.resources
    requests = dict((given.requests if given else None) or {})
    limits = dict((given.limits if given else None) or {})
    return {"requests": requests | gpus, "limits": limits | gpus}


def _mount(name: str, path: str, read_only: bool | None) -> Document:
    return {"name": name, "mountPath": path} | ({"readOnly": True} if read_only else {})


def _volumes(trial: TrialSpec) -> list[Document]:
    claims = [
        {
            "name": volume.name,
            "persistentVolumeClaim": {"claimName": volume.claim_name}
            | ({"readOnly": True} if volume.read_only else {}),
        }
        for volume in trial.volumes
    ]
    return [
        {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        {"name": "scratch", "emptyDir": {}},
        *claims,
    ]


def _pod_security(pod: PodSpec) -> Document:
    """Return what the restricted Pod Security standard asks for."""
    context: Document = {
        "runAsNonRoot": True,
        "runAsUser": _USER_ID,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if pod.supplemental_groups:
        context["supplementalGroups"] = list(pod.supplemental_groups)
    return context


def _tolerations(pod: PodSpec) -> list[Document]:
    """GPU nodes are commonly tainted with the resource's name; a lost node is told after a minute, not after five."""
    lost = [
        {"key": f"node.kubernetes.io/{fault}", "operator": "Exists", "effect": "NoExecute"}
        | {"tolerationSeconds": _LOST_NODE_SECONDS}
        for fault in ("not-ready", "unreachable")
    ]
    gpu = {"key": pod.resource_name, "operator": "Exists"}
    return [gpu, *(toleration.to_json() for toleration in pod.tolerations), *lost]
