import asyncio
import logging

import pytest

from tunewright.controller import workqueue
from tunewright.controller.workqueue import WorkQueue
from tunewright.errors import Transient


class Recorder:
    """Notes which keys were reconciled, and answers with delays from a script."""

    def __init__(self, *answers: float | Exception | None) -> None:
        self.seen: list[str] = []
        self.answers = list(answers)
        self.called = asyncio.Semaphore(0)
        self.gate: asyncio.Event | None = None

    async def reconcile(self, key: str) -> float | None:
        self.seen.append(key)
        self.called.release()
        if self.gate is not None:
            await self.gate.wait()
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def calls(self, count: int) -> None:
        for _ in range(count):
            await asyncio.wait_for(self.called.acquire(), 10)


async def run(queue: WorkQueue, recorder: Recorder, count: int, workers: int = 1) -> None:
    tasks = [asyncio.create_task(queue.work(recorder.reconcile)) for _ in range(workers)]
    await recorder.calls(count)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_key_waits_only_once() -> None:
    queue, recorder = WorkQueue(), Recorder()
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    await run(queue, recorder, 2)
    assert recorder.seen == ["a", "b"]


async def test_a_key_added_while_it_is_worked_on_comes_again_afterwards() -> None:
    queue, recorder = WorkQueue(), Recorder()
    recorder.gate = asyncio.Event()
    tasks = [asyncio.create_task(queue.work(recorder.reconcile)) for _ in range(2)]
    queue.add("a")
    await recorder.calls(1)
    queue.add("a")
    queue.add("a")
    await asyncio.sleep(0)
    assert recorder.seen == ["a"], "never two workers on one key"
    recorder.gate.set()
    await recorder.calls(1)
    assert recorder.seen == ["a", "a"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_delay_brings_the_key_back() -> None:
    queue, recorder = WorkQueue(), Recorder(0.0, 0.0)
    queue.add("a")
    await run(queue, recorder, 3)
    assert recorder.seen == ["a", "a", "a"]


async def test_an_error_is_logged_and_the_key_comes_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(workqueue, "RETRY_SECONDS", (0.0, 0.0))
    queue, recorder = WorkQueue(), Recorder(ValueError("first"), ValueError("second"), ValueError("third"))
    queue.add("a")
    with caplog.at_level(logging.ERROR):
        await run(queue, recorder, 4)
    assert [record.getMessage() for record in caplog.records] == ["a: the reconcile failed, again in 0 s"] * 3
    assert recorder.seen == ["a"] * 4


async def test_an_expected_error_is_one_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(workqueue, "RETRY_SECONDS", (0.0,))
    queue, recorder = WorkQueue(), Recorder(Transient("the API server is away"))
    queue.add("a")
    await run(queue, recorder, 2)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "a: Transient: the API server is away: again in 0 s")
    ]
