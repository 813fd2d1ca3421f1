"""The firewall rules that kubelet and kube-proxy leave behind: removed when a node is gone.

Called by `host_cleanup.py`. `kube-proxy --cleanup` leaves the kubelet's; one batch for each table removes all, and
touches no chain that is not called KUBE-something.
"""

import shutil

from tests.support.cluster.commands import need_program, run

TABLES = ("nat", "filter", "mangle")


def has_kubernetes_chains() -> bool:
    """Tell whether any kubelet has left its mark on the firewall."""
    return ":KUBE-" in run(need_program("iptables-save", "apt-get install iptables"))


def remove_kubernetes_chains() -> None:
    """Remove all `KUBE-` chains and the jumps to them, for both address families."""
    for family in ("iptables", "ip6tables"):
        if shutil.which(family):
            for table in TABLES:
                _clean_table(family, table)


def removal_script(table: str, saved: str) -> str | None:
    """Return the batch that removes the `KUBE-` chains of a saved table; None where there are none.

    >>> print(removal_script("nat", ":KUBE-A - [0:0]\\n-A OUTPUT -j KUBE-A\\n-A KUBE-A -j ACCEPT\\n"))
    *nat
    -D OUTPUT -j KUBE-A
    -F KUBE-A
    -X KUBE-A
    COMMIT
    <BLANKLINE>
    """
    lines = saved.splitlines()
    chains = [line[1:].split()[0] for line in lines if line.startswith(":KUBE-")]
    jumps = ["-D" + line[2:] for line in lines if line.startswith("-A ") and _is_jump_from_outside(line)]
    if not chains:
        return None
    flushes = [f"-F {chain}" for chain in chains]
    deletions = [f"-X {chain}" for chain in chains]
    return "\n".join([f"*{table}", *jumps, *flushes, *deletions, "COMMIT", ""])


def _is_jump_from_outside(rule: str) -> bool:
    return " -j KUBE-" in rule and not rule.startswith("-A KUBE-")


def _clean_table(family: str, table: str) -> None:
    save, restore = need_program(f"{family}-save", "iptables"), need_program(f"{family}-restore", "iptables")
    script = removal_script(table, run(save, "-t", table))
    if script is not None:
        run(restore, "--noflush", stdin=script)
