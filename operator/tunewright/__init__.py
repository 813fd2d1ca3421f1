"""Tunewright finds the fastest LLM-training configuration for a model on a cluster of AMD Instinct GPUs."""

__version__ = "0.1.0"
