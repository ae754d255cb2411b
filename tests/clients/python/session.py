"""A session of redis-py with the server or proxy at KEYFOLD_ADDR; fails on the first wrong answer."""

import os
import threading
import time

import redis
from redis.cache import CacheConfig

from answers import check

HOST, PORT = os.environ["KEYFOLD_ADDR"].rsplit(":", 1)
LOGINS, SESSION = "user:7:logins", "sess:0b6e9b34-6d1f-4a52-9c3d-2f1f6f5a7e10"
POST = ["post:1:title", "post:1:body", "post:1:tags"]


def strings(client):
    check(client.set(LOGINS, 41), True)
    check(client.incr(LOGINS), 42)
    check(client.get(LOGINS), b"42")
    check(client.set(LOGINS, 1, nx=True), None)
    check(client.set(LOGINS, 5, get=True), b"42")
    check(client.incrbyfloat(LOGINS, 0.5), 5.5)
    for value in (b"", b"\x00\x01\xff\r\n", b"v" * 44, b"v" * 65, b"v" * 100_000):
        client.set(SESSION, value)
        check(client.get(SESSION), value)
        check(client.strlen(SESSION), len(value))
    client.mset({key: key.upper() for key in POST})
    check(client.mget([*POST, "none"]), [key.upper().encode() for key in POST] + [None])
    check(client.append(POST[0], "!"), 13)
    check(client.getdel(POST[2]), b"POST:1:TAGS")
    check(client.exists(*POST), 2)
    check(client.delete(*POST), 2)


def expiries(client):
    client.set(SESSION, "token", ex=1000)
    check(990 < client.ttl(SESSION) <= 1000, True)
    check(client.expire(SESSION, 2000, gt=True), True)
    check(1990 < client.ttl(SESSION) <= 2000, True)
    check(client.persist(SESSION), True)
    check(client.ttl(SESSION), -1)
    client.pexpire(SESSION, 1)
    deadline = time.monotonic() + 10
    while client.exists(SESSION) and time.monotonic() < deadline:
        pass
    check(client.get(SESSION), None)


def pipelines(client):
    with client.pipeline(transaction=False) as pipe:
        for number in range(200):
            pipe.set(f"user:{number}:logins", number)
        for number in range(200):
            pipe.get(f"user:{number}:logins")
        check(pipe.execute()[200:], [str(number).encode() for number in range(200)])
    keys = sorted(client.scan_iter(match="user:*:logins", count=20))
    check(keys, sorted(f"user:{number}:logins".encode() for number in range(200)))


def transactions(client):
    client.set(LOGINS, 1)
    with client.pipeline() as pipe:
        pipe.incr(LOGINS).get(LOGINS).set("plain", "x").expire(LOGINS, 100)
        check(pipe.execute(), [2, b"2", True, True])
    with client.pipeline() as pipe:
        pipe.watch(LOGINS)
        seen = int(pipe.get(LOGINS))
        client.set(LOGINS, 10)
        pipe.multi()
        pipe.set(LOGINS, seen + 1)
        try:
            pipe.execute()
            raise SystemExit("EXEC went through although the watched key had changed")
        except redis.WatchError:
            pass
    check(client.get(LOGINS), b"10")
    check(client.transaction(lambda pipe: pipe.multi() or pipe.incr(LOGINS), LOGINS), [11])


def errors(client):
    client.set(LOGINS, "text")
    for call in (lambda: client.incr(LOGINS), lambda: client.lpush(LOGINS, "a")):
        try:
            call()
            raise SystemExit("no error where one belongs")
        except redis.ResponseError:
            pass


def pubsub(client):
    with client.pubsub(ignore_subscribe_messages=True) as subscriber:
        subscriber.subscribe("news")
        subscriber.get_message(timeout=5)
        check(client.publish("news", b"\x00hello"), 1)
        message = subscriber.get_message(timeout=5)
        check((message["channel"], message["data"]), (b"news", b"\x00hello"))


def blocking(client):
    pusher = threading.Timer(0.1, lambda: client.rpush("list", "item"))
    pusher.start()
    check(list(client.blpop("list", timeout=10)), [b"list", b"item"])
    pusher.join()


def caching(client):
    """What is read twice is asked once, until somebody changes it. The library caches what Redis 7.4 or later answers."""
    server = client.info("server")
    version = tuple(int(part) for part in server["redis_version"].split(".")[:2])
    if version < (7, 4) or "valkey_version" in server:
        print("redis-py's cache passed over: it wants Redis 7.4 or later")
        return
    config = CacheConfig(max_size=1000)
    with redis.Redis(host=HOST, port=int(PORT), protocol=3, cache_config=config, socket_timeout=20) as cached:
        for key in (LOGINS, SESSION, "plain"):
            client.set(key, "old")
            check(cached.get(key), b"old")
            entries = cached.get_cache().size
            check(cached.get(key), b"old")
            check((cached.get_cache().size, entries > 0), (entries, True))
            client.set(key, "new")
            eventually(lambda key=key: cached.get(key) == b"new")
            cached.set(key, "own")
            check(cached.get(key), b"own")
            client.pexpire(key, 50)
            eventually(lambda key=key: cached.get(key) is None)
        cached.set(LOGINS, "kept")
        check(cached.get(LOGINS), b"kept")
        client.flushall()
        eventually(lambda: cached.get(LOGINS) is None)


def eventually(holds):
    deadline = time.monotonic() + 20
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit("a cached value was not forgotten")


for protocol in (2, 3):
    with redis.Redis(host=HOST, port=int(PORT), protocol=protocol, socket_timeout=20) as connected:
        connected.flushall()
        for part in (strings, expiries, pipelines, transactions, errors, pubsub, blocking, caching):
            part(connected)
    print(f"redis-py {redis.__version__}, RESP{protocol}: as it should be")
