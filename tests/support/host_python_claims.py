"""The host's Python for the trials of a TuningRun, which takes claims only: volumes over host folders, by name."""

from typing import Any

from tests.support.cluster.host_python import host_python_mounts
from tests.support.cluster.kubectl import Kubectl

Document = dict[str, Any]


def trial_on_host_python(kubectl: Kubectl, namespace: str, image: str) -> Document:
    """Create volumes and claims in `namespace`; return a `spec.trial` that runs the repository's trial program."""
    mounts = host_python_mounts()
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in mounts.volumes}
    for name, path in paths.items():
        kubectl.apply(*_volume_and_claim(f"{namespace}-{name}", name, path, namespace))
    return {
        "image": image,
        "devicePreset": "cpu",
        "command": [mounts.python, "-m", "tunewright_trial"],
        "env": mounts.env,
        "volumes": [
            {"name": name, "claimName": name, "mountPath": path, "readOnly": True} for name, path in paths.items()
        ],
    }


def _volume_and_claim(volume: str, claim: str, path: str, namespace: str) -> list[Document]:
    size = {"storage": "1Gi"}
    shared = {"accessModes": ["ReadOnlyMany"], "storageClassName": "", "volumeMode": "Filesystem"}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                **shared,
                "capacity": size,
                "hostPath": {"path": path, "type": "Directory"},
                "claimRef": {"namespace": namespace, "name": claim},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": namespace},
            "spec": {**shared, "volumeName": volume, "resources": {"requests": size}},
        },
    ]
