"""The time that a schedule takes: its operations as a graph, and the longest path through it for many rows at once."""
