"""How late an asyncio loop wakes up that does nothing else: what this machine adds to the operator's lag.

    python -m benchmarks.operator.bare_loop

Samples as the operator's own metric does, until its standard input is closed; then prints the lags as a JSON list.
"""

import asyncio
import json
import sys
import threading
import time

PERIOD_SECONDS = 0.1


def main() -> None:
    """Sample until nobody listens."""
    ended = threading.Event()
    threading.Thread(target=_wait, args=(ended,), daemon=True).start()
    print(json.dumps(asyncio.run(_lags(ended))))


def _wait(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


async def _lags(ended: threading.Event) -> list[float]:
    lags = []
    while not ended.is_set():
        began = time.perf_counter()
        await asyncio.sleep(PERIOD_SECONDS)
        lags.append(max(0.0, time.perf_counter() - began - PERIOD_SECONDS))
    return lags


if __name__ == "__main__":
    main()
