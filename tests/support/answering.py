"""What a process answers on a port of this machine. Used by the tests of probes and metrics."""

import urllib.error
import urllib.request


def answered(port: int, path: str) -> int:
    """Return the status of the answer to GET `path`; 0 where nothing listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0
