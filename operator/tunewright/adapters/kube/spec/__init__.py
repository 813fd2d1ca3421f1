"""The TuningRun's spec and status as pydantic models, in the words of the custom resource. No Kubernetes import.

The CRD is generated from them (`adapters.kube.crd`); the operator and the command line read documents through them.
"""
