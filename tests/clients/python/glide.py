"""A session of valkey-glide's cluster client with the keyfolds at KEYFOLD_ADDRS; fails on the first wrong answer.

The second keyfold, of the processes in KEYFOLD_PIDS, is killed at the end: the first has all slots then.
"""

from glide_sync import (
    ClusterBatch,
    ClusterScanCursor,
    GlideClusterClient,
    GlideClusterClientConfiguration,
    NodeAddress,
    RequestError,
    Script,
    TimeoutError,
)

from answers import check
from keyfolds import CART, NODES, USERS, one_is_gone


def values(client):
    for key, value in USERS.items():
        check(client.set(key, value), "OK")
    check([client.get(key) for key in USERS], list(USERS.values()))
    check(client.incr("user:41"), 42)
    check(client.decr("user:41"), 41)


def pipelines(client):
    batch = ClusterBatch(is_atomic=False)
    for key in USERS:
        batch.get(key)
    check(client.exec(batch, raise_on_error=True), list(USERS.values()))


def many_keys(client):
    # glide takes keys of all slots apart by itself.
    check(client.mget(list(USERS)), list(USERS.values()))
    check(client.mset(dict.fromkeys(CART, "1")), "OK")
    check(client.delete(CART[10:]), 10)
    check(client.exists(CART), 10)


def transactions(client):
    batch = ClusterBatch(is_atomic=True)
    batch.set(CART[0], "1").incr(CART[0]).get("plain:{7}")
    check(client.exec(batch, raise_on_error=True), ["OK", 2, None])
    check(client.invoke_script(Script("return redis.call('INCR', KEYS[1])"), keys=["plain:{7}"]), 1)


def walks(client):
    found, cursor = set(), ClusterScanCursor()
    while not cursor.is_finished():
        cursor, keys = client.scan(cursor, match="user:*", count=200)
        found.update(keys)
    check(found, {key.encode() for key in USERS})


def main():
    nodes = [NodeAddress(host, int(port)) for host, port in NODES]
    client = GlideClusterClient.create(GlideClusterClientConfiguration(nodes, request_timeout=10_000))
    client.flushall()
    for part in (values, pipelines, many_keys, transactions, walks):
        part(client)
    one_is_gone(client, RequestError, TimeoutError)
    client.close()
    print("valkey-glide, cluster: as it should be")


main()
