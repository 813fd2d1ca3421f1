"""Pipeline schedules: the order of operations on each rank, and the time that this order takes."""
