"""Free ports and this machine's own address: called before processes that listen are started."""

import json
import shutil
import socket
import subprocess
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Return distinct TCP ports that are free now; all are held until all are chosen, so none comes twice."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("0.0.0.0", 0))
        return [one.getsockname()[1] for one in sockets]


def node_address() -> str | None:
    """Return the first global IPv4 address of this machine, which Pods can reach; None where there is none."""
    if shutil.which("ip") is None:
        return None
    listed = subprocess.run(
        ["ip", "-json", "-4", "address", "show", "scope", "global", "up"],
        capture_output=True,
        text=True,
        check=False,
    )
    for link in json.loads(listed.stdout or "[]"):
        for address in link.get("addr_info", []):
            return str(address["local"])
    return None
