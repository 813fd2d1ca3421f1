"""How many tokens a text may take, by its size: the tokenisers of most models are not to be had. For `conversation`."""

import math

from tunewright.planner.budget import BYTES_PER_TOKEN


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of `text`, on the high side: as many as its reservation counts."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)
