"""Pipeline schedules as orders of operations: what launchers run, projections simulate and trials execute."""
