"""The command line: thin commands over the same planner, engine and adapters that the operator uses."""
