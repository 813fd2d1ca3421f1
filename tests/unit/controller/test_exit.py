"""An operator that was told to end ends, whatever hangs."""

import subprocess
import sys

HANGS = """
import asyncio
from tunewright.controller import handlers

handlers.EXIT_SECONDS = 0.1

async def main():
    await handlers.stop()
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_process_that_hangs_after_its_cleanup_ends_as_a_crash_does() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGS], check=False, timeout=300)
    assert ended.returncode == 1


def test_one_that_does_not_hang_ends_by_itself() -> None:
    calm = HANGS.replace("EXIT_SECONDS = 0.1", "EXIT_SECONDS = 300.0").replace("await asyncio.Event().wait()", "")
    ended = subprocess.run([sys.executable, "-c", calm], check=False, timeout=300)
    assert ended.returncode == 0
