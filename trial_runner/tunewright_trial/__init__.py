"""The trial program: reads a request, runs transformer layers in torch, writes a report. torch lives only here.

`python -m tunewright_trial --request FILE --report FILE`. One supervisor per node (`supervisor`, no torch) starts one
process per rank (`rank`) and writes exactly one report, whatever happens to them.
"""
