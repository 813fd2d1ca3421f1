"""coredns as a process of the host, for Pods that find each other by name. Called by `Node(dns=True)`."""

from pathlib import Path

from tests.support.cluster.kubeconfig import CONTEXT

# `ttl 0` matters for a rendezvous of Pods that start together. The second block answers "no such name" for all other
# names; the kubernetes plugin alone would end them in a server failure.
COREFILE = """
cluster.local:53 in-addr.arpa:53 {{
  bind {address}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {kubeconfig} {context}
    ttl 0
  }}
}}
.:53 {{
  bind {address}
  template ANY ANY {{
    rcode NXDOMAIN
  }}
}}
"""


def dns_flags(folder: Path, address: str, kubeconfig: Path) -> list[str]:
    """Write the Corefile and return the command line."""
    file = folder / "Corefile"
    file.write_text(COREFILE.format(address=address, kubeconfig=kubeconfig, context=CONTEXT))
    return [f"-conf={file}"]
