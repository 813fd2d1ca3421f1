"""Drives a run through its ports: one step reads, records, decides, writes the plan, then acts.

Called by the operator's reconcile and by the command line's loop; knows neither Kubernetes nor processes.
"""
