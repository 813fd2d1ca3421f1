"""The nodes of a trial come together before any of them starts a rank. Called by `entry`; imports no torch.

Node 0 listens where its ranks meet later (MASTER_PORT). The others call until it answers and wait for its word, which
comes when all are there. Images take minutes to pull, on one node longer than on another: a rank that waited for that
would count it as training time. Who started the Pod learns of it by a file (TUNEWRIGHT_MET_FILE, for its startup
probe) and says how long to wait (TUNEWRIGHT_START_SECONDS).
"""

import json
import socket
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.failures import TrialFailure, listed
from tunewright_trial.job_environment import master_address_in, master_port_in, node_rank_in, start_seconds_in

DEFAULT_PORT = 29500
_GO = b"go\n"
_HELLO_SECONDS = 5.0
_MOST_HELLO_BYTES = 200
_PAUSE_SECONDS = 0.2


def gather(request: TrialRequest, environment: MutableMapping[str, str]) -> None:
    """Return when all nodes of the trial are here; raise `TrialFailure` when they are not in time.

    Leaves in `environment`, which the ranks inherit, where they meet.
    """
    node = node_rank_in(environment, request.nodes)
    address, port = master_address_in(environment, node), master_port_in(environment, DEFAULT_PORT)
    seconds = start_seconds_in(environment, request.deadline_seconds)
    environment.update(MASTER_ADDR=address, MASTER_PORT=str(port))  # where the ranks will look
    if node == 0:
        _host(request, port, seconds)
    else:
        _join(request, node, (address, port), seconds)
    if environment.get("TUNEWRIGHT_MET_FILE"):
        Path(environment["TUNEWRIGHT_MET_FILE"]).touch()


def _host(request: TrialRequest, port: int, seconds: float) -> None:
    """Wait for every other node and give the word, after freeing the port for the ranks."""
    deadline = time.monotonic() + seconds
    peers: dict[int, socket.socket] = {}
    try:
        with _listening(port) as listener:
            while len(peers) < request.nodes - 1:
                peer = _accept(listener, deadline - time.monotonic())
                if peer is None:
                    raise TrialFailure("RcclFailure", f"{_absent(peers, request.nodes)} not here after {seconds:g} s")
                _admit(peer, request, peers)
        for peer in peers.values():
            peer.sendall(_GO)
    finally:
        for peer in peers.values():
            peer.close()


def _listening(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    return socket.create_server(("", port), backlog=1024)


def _accept(listener: socket.socket, seconds: float) -> socket.socket | None:
    listener.settimeout(max(seconds, 0.001))
    try:
        return listener.accept()[0]
    except TimeoutError:
        return None


def _admit(peer: socket.socket, request: TrialRequest, peers: dict[int, socket.socket]) -> None:
    """Keep the connection of a node of this trial, its latest; close a stranger's."""
    peer.settimeout(_HELLO_SECONDS)
    try:
        with peer.makefile("rb") as lines:
            hello = json.loads(lines.readline(_MOST_HELLO_BYTES))
        node = hello["node"] if hello["request"] == request.digest() else 0
    except (OSError, ValueError, KeyError, TypeError):
        node = 0
    if not isinstance(node, int) or not 0 < node < request.nodes:
        peer.close()
        return
    if node in peers:
        peers[node].close()
    peers[node] = peer


def _absent(peers: Mapping[int, socket.socket], nodes: int) -> str:
    return f"node(s) {listed([str(node) for node in range(1, nodes) if node not in peers])}"


def _join(request: TrialRequest, node: int, host: tuple[str, int], seconds: float) -> None:
    """Call node 0 until it gives the word."""
    deadline = time.monotonic() + seconds
    hello = json.dumps({"request": request.digest(), "node": node}).encode() + b"\n"
    while True:
        reason = _called(host, hello, deadline)
        if not reason:
            return
        if time.monotonic() >= deadline:
            where = f"node 0 at {host[0]}:{host[1]}"
            raise TrialFailure("RcclFailure", f"node {node}: {where} gave no word within {seconds:g} s: {reason}")
        time.sleep(_PAUSE_SECONDS)


def _called(host: tuple[str, int], hello: bytes, deadline: float) -> str:
    """Call once and wait for the word; return why it did not come, or nothing when it did."""
    try:
        with socket.create_connection(host, timeout=_HELLO_SECONDS) as connection:
            connection.sendall(hello)
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            return "" if connection.recv(len(_GO)) == _GO else "it closed the connection"
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that no host can have
        return str(error) or type(error).__name__
