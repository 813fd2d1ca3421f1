"""The Pods' network: a bridge on the host, addresses from a pool of its own. Called by `node.py`.

No masquerading and no NetworkPolicy: Pods reach this host and each other, which is all that the tests need.
"""

import json
from pathlib import Path

POD_CIDR = "10.246.0.0/16"
BRIDGE = "twtest0"


def write_cni_configuration(folder: Path) -> Path:
    """Write the plugin list and return its folder; the leases are kept inside too, not in /var/lib/cni."""
    pool = {"type": "host-local", "ranges": [[{"subnet": POD_CIDR}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {**pool, "dataDir": str(folder / "leases")},
    }
    plugins = {"cniVersion": "0.4.0", "name": "tunewright-test", "plugins": [bridge]}
    configuration = folder / "conf.d"
    configuration.mkdir(parents=True)
    (configuration / "10-bridge.conflist").write_text(json.dumps(plugins))
    return configuration
