"""Step time of a configuration: FLOPs, layer times, collectives, pipeline simulation, projection from a profile.

Called by search, planner, report and the command line. Pure, and vectorised over `ConfigBatch`.
"""
