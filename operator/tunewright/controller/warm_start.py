"""The ledger of another run that answers this one's profiles. Called by `wiring`.

Profiles are told apart by their key, but who took them is not part of it: the model, the accelerators of a node, the
backend and the image must be those of this run, or its answers would be about something else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tunewright.adapters.kube.client import KubeClient
from tunewright.adapters.kube.kept import find_reference
from tunewright.adapters.kube.ledger import Decode, read_shards, shards_text
from tunewright.adapters.kube.problem_reader import NotAccepted
from tunewright.errors import Problem
from tunewright.planner.chain import head_of
from tunewright.planner.records import Header, Record

FIELD = "spec.warmStart.ledgerFrom.name"


@dataclass(frozen=True)
class WarmStart:
    """Records that answer, and the digest of the last of them."""

    records: Sequence[Record]
    digest: str


async def read_warm_start(client: KubeClient, namespace: str, name: str, wanted: Header, decode: Decode) -> WarmStart:
    """Read the ledger of `name`; raise `NotAccepted` where there is none or it is about something else."""
    run = await find_reference(client, namespace, name)
    text = shards_text(await read_shards(client, run)) if run is not None else ""
    if not text:
        remedy = "has no ledger in this namespace: name a run that has begun, or one whose ledger was kept"
        raise NotAccepted("ReferenceNotFound", [Problem(FIELD, name, remedy)])
    records = decode(text, f"ledger of {namespace}/{name}")
    header = records[0]
    if not isinstance(header, Header):
        raise NotAccepted("Illegal", [Problem(FIELD, name, "has a ledger without a header: name another run")])
    _check_same_place(header, wanted, name)
    return WarmStart(records, head_of(text))


def _check_same_place(recorded: Header, wanted: Header, name: str) -> None:
    theirs, ours = _signature(recorded), _signature(wanted)
    problems = [
        Problem(FIELD, name, f"was measured with another {what}: {theirs[what]}, not {ours[what]}; name another run")
        for what in ours
        if theirs[what] != ours[what]
    ]
    if problems:
        raise NotAccepted("Illegal", problems)


def _signature(header: Header) -> dict[str, str]:
    problem = header.problem
    cluster = problem.cluster
    return {
        "model": f"{problem.model.name} ({problem.model.digest()[:12]})",
        "accelerator": f"{cluster.gpus_per_node} {cluster.accelerator.name}",
        "device": f"{header.device.count} {header.device.preset}",
        "backend": f"{problem.backend} ({problem.implementation})",
        "image": header.image or "no image",
        "kind of trials": "simulated" if header.simulated else "real",
    }
