"""The words of a schedule's order, shared by the builders, the graph and the tests."""

FORWARD, BACKWARD, WEIGHT = 0, 1, 2

Operation = tuple[int, int, int]
"""Kind, chunk of the rank, micro batch."""

RankOrders = tuple[tuple[Operation, ...], ...]
"""The operations of each rank."""
