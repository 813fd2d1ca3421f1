"""1,000 questions through DSPy and LiteLLM to a local endpoint: what of them stays in memory.

    python -m benchmarks.operator.soak API_BASE ROUNDS

asks in a process of its own, as the operator does, and prints its resident memory after the first rounds and at the
end; the scenario starts it beside the endpoint.
"""

import asyncio
import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.operator.figures import Figure
from tests.support.openai_server import proposals, serving
from tunewright.adapters.advisor import LLMAdvisor, LLMConnection
from tunewright.ports import AdviceRequest

ROUNDS = 1000
WARM_UP = 50
"""Rounds in which caches and pools grow to their size."""
MEBIBYTE = 2.0**20
NAME = "soak"
_AXES: dict[str, Any] = {
    "tensor_parallel_size": [1, 2, 4, 8],
    "pipeline_parallel_size": [1, 2, 4, 8],
    "micro_batch_size": [1, 2, 4, 8],
    "pipeline_schedule": ["1f1b", "zero-bubble-h1"],
}


async def soak(scale: float) -> list[Figure]:
    """Ask so many rounds after the first ones."""
    count = max(10, round(ROUNDS * scale))
    with serving(proposals({"tensor_parallel_size": 4, "micro_batch_size": 2})) as server:
        words = ["-m", "benchmarks.operator.soak", server.api_base, str(count)]
        child = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
        output, _ = await child.communicate()
        asked = len(server.requests)
    found = json.loads(output)
    growth = (found["end"] - found["warm"]) / MEBIBYTE
    said = f"{count} rounds after {WARM_UP}, {asked} requests seen, {found['answered']} answered"
    return [
        Figure(NAME, "RSS growth", growth, "MiB", 50, said),
        Figure(NAME, "RSS at the end", found["end"] / MEBIBYTE, "MiB", None, "of the process that asks"),
    ]


async def ask(api_base: str, count: int) -> dict[str, int]:
    """Ask and return the resident bytes after the warm-up and at the end, and how many rounds were answered."""
    connection = LLMConnection.parse({"model": "openai/scripted", "apiBase": api_base, "apiKey": "sk-any"})
    advisor = LLMAdvisor(connection)
    await _rounds(advisor, 1, WARM_UP)
    warm = _resident_bytes()
    answered = await _rounds(advisor, WARM_UP + 1, count)
    return {"warm": warm, "end": _resident_bytes(), "answered": answered}


async def _rounds(advisor: LLMAdvisor, first: int, count: int) -> int:
    answered = 0
    for number in range(first, first + count):
        # Every question is another one, as those of a run are: what is kept by question would show.
        context = {"axes": _AXES, "incumbent": {"tensor_parallel_size": 1}, "trialsLeft": number}
        request = AdviceRequest(round=number, proposals=2, max_output_tokens=300, context=context, max_calls=1)
        answered += (await advisor.ask(request)).outcome == "answered"
    return answered


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(ask(sys.argv[1], int(sys.argv[2])))))
