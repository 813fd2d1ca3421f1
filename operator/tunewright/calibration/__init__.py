"""Measurements of other people against the model: rows of a table become problems, estimates and statistics.

Called by `tunewright accuracy` and `tunewright calibrate`. Pure: text and values in, values out.
"""
