"""Trials that launch the training stack of the image instead of this program's own layers. Imports no torch."""
