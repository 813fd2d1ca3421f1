"""Snapshot to decision: seed, explore, validate; stopping, budget, explanation. No clock, no I/O."""
