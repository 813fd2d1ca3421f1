"""Asks an installed operator for a run that starts suspended: accepted, forecast, nothing started. Then removes it.

`helm test` runs this in a Pod: ``python -m tunewright.adapters.kube.dry_run --namespace team-a``.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.client import JOBS, TUNING_RUNS, KubeClient, connected
from tunewright.adapters.kube.spec.tuning_run import API_VERSION, KIND
from tunewright.errors import ClusterError, TuningError

Document = dict[str, Any]

NAME = "tunewright-dry-run"
_LOOKS_EVERY_SECONDS = 1.0


def suspended_run(image: str) -> Document:
    """Return a small TuningRun that creates nothing."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": NAME},
        "spec": {
            "suspend": True,
            "workload": {
                "model": {"preset": "tiny-quickstart"},
                "sequenceLength": 128,
                "globalBatchSize": 32,
                "backend": "builtin",
            },
            "cluster": {"nodes": 1, "gpusPerNode": 8, "accelerator": {"preset": "mi355x"}},
            **({"trial": {"image": image}} if image else {}),
        },
    }


async def dry_run(client: KubeClient, namespace: str, image: str, timeout_seconds: float) -> str:
    """Return what the operator forecasts; raise `TuningError` where it refuses, says nothing or starts something."""
    await client.delete(TUNING_RUNS, namespace, NAME)
    await client.create(TUNING_RUNS, namespace, suspended_run(image))
    try:
        async with asyncio.timeout(timeout_seconds):
            forecast = await _forecast(client, namespace)
    except TimeoutError:
        remedy = f"see kubectl logs of the operator, and whether it watches {namespace}"
        raise ClusterError(f"no operator took up the run within {timeout_seconds:g} s: {remedy}") from None
    else:
        jobs = await client.list(JOBS, namespace, labels=f"{labels.OWN_OBJECTS},{labels.RUN}={NAME}")
        if jobs:
            raise ClusterError(f"a suspended run started {len(jobs)} Job(s)")
        return f"accepted; forecast: {forecast['trials']} trials, {forecast['gpuHours']} GPU hours; nothing started"
    finally:
        await client.delete(TUNING_RUNS, namespace, NAME)


async def _forecast(client: KubeClient, namespace: str) -> Document:
    while True:
        document = await client.find(TUNING_RUNS, namespace, NAME)
        status = (document or {}).get("status") or {}
        conditions = {one["type"]: one for one in status.get("conditions", ())}
        accepted = conditions.get("Accepted", {})
        if accepted.get("status") == "False":
            raise ClusterError(f"not accepted, {accepted['reason']}: {accepted['message']}")
        forecast: Document = status.get("forecast") or {}
        if forecast and conditions["Suspended"]["status"] == "True":
            return forecast
        await asyncio.sleep(_LOOKS_EVERY_SECONDS)


async def _main(arguments: argparse.Namespace) -> str:
    async with connected() as client:
        return await dry_run(client, arguments.namespace, arguments.image, arguments.timeout)


def main(words: Sequence[str]) -> int:
    """Run it and say in one line how it ended."""
    parser = argparse.ArgumentParser(prog="dry_run", description=__doc__)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--image", default="", help="trial image, where the operator has no default")
    parser.add_argument("--timeout", type=float, default=120)
    try:
        said = asyncio.run(_main(parser.parse_args(words)))
    except TuningError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{said}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
