"""A session of redis-py's cluster client with the keyfolds at KEYFOLD_ADDRS; fails on the first wrong answer.

The second keyfold, of the processes in KEYFOLD_PIDS, is killed at the end: the first has all slots then.
"""

import time

import redis
from redis.cluster import ClusterNode, RedisCluster

from answers import check
from keyfolds import CART, NODES, USERS, one_is_gone


def values(client):
    check(len(client.get_primaries()), 2)
    for key, value in USERS.items():
        check(client.set(key, value), True)
    for key, value in USERS.items():
        check(client.get(key), value)
    check(client.incr("user:41"), 42)
    check(client.decr("user:41"), 41)


def pipelines(client):
    pipe = client.pipeline()
    for key in USERS:
        pipe.get(key)
    check(pipe.execute(), list(USERS.values()))


def many_keys(client):
    check(client.mset(dict.fromkeys(CART, "1")), True)
    check(client.mget(CART), [b"1"] * len(CART))
    check(client.mget_nonatomic(list(USERS)), list(USERS.values()))
    check(client.delete(*CART[10:]), 10)
    check(client.exists(*CART), 10)


def transactions(client):
    with client.pipeline(transaction=True) as pipe:
        pipe.set(CART[0], 1).incr(CART[0]).get("plain:{7}")
        check(pipe.execute()[1:], [2, None])
    check(client.eval("return redis.call('INCR', KEYS[1])", 1, "plain:{7}"), 1)


def walks(client):
    # Each keyfold shows the keys of all.
    check(set(client.scan_iter(match="user:*", count=200)), {key.encode() for key in USERS})


def messages(client):
    listener = client.pubsub()
    listener.subscribe("news")
    listener.ssubscribe("news:{7}")
    time.sleep(0.2)
    client.publish("news", "a")
    client.spublish("news:{7}", "b")
    found, deadline = set(), time.monotonic() + 20
    while len(found) < 2 and time.monotonic() < deadline:
        for take in (listener.get_message, listener.get_sharded_message):
            message = take(ignore_subscribe_messages=True, timeout=0.1)
            if message:
                found.add((message["type"], message["data"]))
    check(found, {("message", b"a"), ("smessage", b"b")})
    listener.close()


def main():
    for protocol in (2, 3):
        client = RedisCluster(startup_nodes=[ClusterNode(host, int(port)) for host, port in NODES], protocol=protocol)
        client.flushall()
        for part in (values, pipelines, many_keys, transactions, walks, messages):
            part(client)
    one_is_gone(client, redis.RedisError, OSError)
    check(len(client.get_primaries()), 1)
    print(f"redis-py {redis.__version__}, cluster: as it should be")


main()
