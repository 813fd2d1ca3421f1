"""The trial program: reads a request, runs the candidate's layers or the whole job, writes a report."""
