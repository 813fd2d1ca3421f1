"""200 TuningRuns with four parallel trials each, all created at once: lag, memory, and whether any run starves."""

import json
import math

from benchmarks.operator.delays import decision_delays
from benchmarks.operator.figures import Figure, bucket_quantile, quantile
from benchmarks.operator.rig import Rig, rig
from benchmarks.operator.runs import ends_in, jobs_of, ledger_of, recorded_ends, small_run
from benchmarks.operator.scrape import Scrape
from tunewright.adapters.kube.names import RunReference

RUNS = 200
PARALLEL = 4
TRIAL_SECONDS = 60.0
MEBIBYTE = 2.0**20
_PODS_PER_NODE = 110
_OWN_LLM = {"model": "openai/never-asked", "apiBase": "http://127.0.0.1:9/v1"}
NAME = "many-runs"


async def many_runs(scale: float) -> list[Figure]:
    """Create all runs of this scale at once and wait until all are finished."""
    count = max(1, round(RUNS * scale))
    variables = {"TUNEWRIGHT_LLM": json.dumps(_OWN_LLM), "TUNEWRIGHT_LLM_API_KEY": "sk-never-used"}
    async with rig(variables=variables) as here:
        with here.kubelets(math.ceil(count * PARALLEL / _PODS_PER_NODE), TRIAL_SECONDS) as ends:
            await here.ready()
            await here.until_idle()
            idle, before = here.peak_bytes, here.scrape()
            with here.bare_loop() as bare:
                runs = await here.create([small_run(f"run-{n}", parallelTrials=PARALLEL) for n in range(count)])
                await here.finished(count)
                done = here.scrape().since(before)
            delays = await _delays(here, runs, ends_in(ends))
    return _figures(count, delays, done, bare, idle, here.peak_bytes)


async def _delays(here: Rig, runs: list[RunReference], ends: dict[str, float]) -> list[float]:
    delays: list[float] = []
    for run in runs:
        records = await ledger_of(here.client, run)
        delays += decision_delays(recorded_ends(records), jobs_of(records, run), ends)
    return delays


def _figures(
    count: int, delays: list[float], done: Scrape, bare: list[float], idle: float, peak: float
) -> list[Figure]:
    trials = len(delays)
    lag = bucket_quantile(done.buckets("tunewright_event_loop_lag_seconds"), 0.99)
    requests = done.total("tunewright_api_requests_total")
    said = f"{count} runs, {trials} trials"
    return [
        Figure(NAME, "event-loop lag, p99", 1000 * lag, "ms", 100, said),
        Figure(NAME, "a bare asyncio loop's lag, p99", 1000 * quantile(bare, 0.99), "ms", None, "on the same core"),
        Figure(
            NAME, "operator RSS, largest seen", peak / MEBIBYTE, "MiB", 512, f"idle with LiteLLM {idle / MEBIBYTE:.0f}"
        ),
        Figure(
            NAME, "slowest decision delay", max(delays, default=math.nan), "s", 2, "Pod's end to its line in the ledger"
        ),
        Figure(NAME, "decision delay, p95", quantile(delays, 0.95), "s"),
        Figure(
            NAME, "reconcile, p99", 1000 * bucket_quantile(done.buckets("tunewright_reconcile_seconds"), 0.99), "ms"
        ),
        Figure(
            NAME, "API requests per trial", requests / trials if trials else math.nan, "", None, "all runs together"
        ),
    ]
