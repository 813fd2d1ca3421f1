"""Namespaces of a test's own, on a cluster of any origin. Used by the fixtures and by tests that need a second one."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.waiting import wait_until

_numbers = itertools.count(1)


@contextmanager
def namespace_on(cluster: Cluster) -> Iterator[str]:
    """Make a namespace, and remove it afterwards; once it is yielded, Pods can be created in it."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    cluster.kubectl("create", "namespace", name)
    account = ["serviceaccount", "default", f"--namespace={name}", "--ignore-not-found", "--output=name"]
    wait_until(lambda: cluster.kubectl("get", *account), f"{name} has its service account")
    try:
        yield name
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")
