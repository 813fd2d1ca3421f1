"""Ledgers that need no cluster: a JSON-lines file, and memory. The ConfigMap ledger is in `adapters.kube`."""
