import time

import pytest

from tunewright.adapters.clock import SystemClock


def test_seconds_start_at_the_wall_clock_and_do_not_follow_its_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    assert clock.seconds() == pytest.approx(time.time(), abs=60)
    before = clock.seconds()
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() - 86_400)
    assert clock.seconds() >= before
