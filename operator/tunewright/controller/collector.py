"""When the garbage collector goes over what lives. Made and run by `loop`.

A collection stops every thread, and with it the event loop: over LiteLLM and the state of some dozens of runs for a
tenth of a second to half a second. Python does one whenever the younger objects are a quarter of the old ones.
"""

import asyncio
import gc

_PERIOD_SECONDS = 0.5
_NEVER = 2**30
_GROWTH = 2.0


class Collector:
    """Collects what is new twice a second, and everything when twice as much as there was has been added.

    What survives is frozen: no later collection looks at it until the next one of everything. So what is held up by
    cycles alone, and died after it had been frozen, stays until then.
    """

    def __init__(self) -> None:
        self.whole = 0
        """Objects that the last collection of everything left."""
        self._added = 0
        """Objects that have been frozen since, of which some have been freed."""

    async def run(self) -> None:
        """Collect for ever, instead of Python's own collections of everything."""
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, _NEVER)
        while True:
            self.collect()
            await asyncio.sleep(_PERIOD_SECONDS)

    def collect(self) -> None:
        """Collect what is new, or everything where enough has been added, and freeze what is left."""
        is_whole = self._added >= _GROWTH * self.whole
        if is_whole:
            gc.unfreeze()
        gc.collect()
        left = len(gc.get_objects())
        self.whole, self._added = (left, 0) if is_whole else (self.whole, self._added + left)
        gc.freeze()
