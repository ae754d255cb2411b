"""The keyfolds before a cluster, at KEYFOLD_ADDRS, and what a session writes through them."""

import os
import signal
import time

from answers import check

NODES = [address.rsplit(":", 1) for address in os.environ["KEYFOLD_ADDRS"].split(",")]
PIDS = [int(pid) for pid in os.environ["KEYFOLD_PIDS"].split(",")]
USERS = {f"user:{number}": str(number).encode() for number in range(1000)}
CART = [f"cart:{{7}}:{item}" for item in range(20)]


def one_is_gone(client, *errors):
    """Kills the second keyfold: soon no read fails with one of these errors any more."""
    os.kill(PIDS[1], signal.SIGKILL)
    deadline = time.monotonic() + 30
    for key, value in USERS.items():
        while True:
            try:
                check(client.get(key), value)
                break
            except errors as error:
                if time.monotonic() > deadline:
                    raise SystemExit(f"{key} is out of reach: {error!r}") from error
                time.sleep(0.1)
