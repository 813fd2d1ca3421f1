"""A run for people: one page with the whole story, and pipelines as traces. All of it from the ledger alone.

Called by `tunewright report` and by whoever publishes a run's result. `page.render_report` makes the page.
"""
