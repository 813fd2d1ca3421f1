"""A real Kubernetes for the tests: control plane, node, images and the pytest fixtures for them.

`fixtures.py` is what tests meet; everything else is called from there. Nothing here imports the project's own code.
"""
