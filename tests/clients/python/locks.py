"""Locks and rate limits by scripts, of redis-py and limits, on folded keys of the server or proxy at KEYFOLD_ADDR; fails on
the first wrong answer."""

import os
import time

import limits
import redis
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter, SlidingWindowCounterRateLimiter
from redis.exceptions import LockError, LockNotOwnedError

from answers import check

ADDRESS = os.environ["KEYFOLD_ADDR"]
HOST, PORT = ADDRESS.rsplit(":", 1)
LOCK = "cnt:lock"


def locks(client):
    lock, other = client.lock(LOCK, timeout=100), client.lock(LOCK, timeout=100)
    check(lock.acquire(), True)
    check(other.acquire(blocking=False), False)
    check(lock.owned(), True)
    check(lock.extend(200), True)
    check(290 < client.ttl(LOCK) <= 300, True)
    check(lock.reacquire(), True)
    check(90 < client.ttl(LOCK) <= 100, True)
    lock.release()
    check(client.exists(LOCK), 0)
    refused(lock.release, LockError)
    check(other.acquire(), True)
    client.delete(LOCK)
    refused(other.release, LockNotOwnedError)
    with client.lock(LOCK, timeout=100):
        # The script is forgotten while the lock is held.
        client.script_flush()
    check(client.exists(LOCK), 0)


def refused(call, error):
    try:
        call()
    except error:
        return
    raise SystemExit(f"no {error.__name__}")


def rate_limits(strategy):
    storage = RedisStorage(f"redis://{ADDRESS}", key_prefix="cnt")
    limiter, limit = strategy(storage), limits.parse("5/hour")
    # Not across the end of a window.
    left = 3600 - time.time() % 3600
    if left < 30:
        time.sleep(left)
    check([limiter.hit(limit, "someone") for _ in range(7)], [True] * 5 + [False] * 2)
    check(limiter.hit(limit, "another", cost=3), True)
    check(limiter.test(limit, "another"), True)
    check(limiter.get_window_stats(limit, "another").remaining, 2)
    check(limiter.hit(limit, "another", cost=3), False)
    limiter.clear(limit, "someone")
    check(limiter.hit(limit, "someone"), True)


for protocol in (2, 3):
    with redis.Redis(host=HOST, port=int(PORT), protocol=protocol, socket_timeout=20) as connected:
        connected.flushall()
        locks(connected)
        for limited_by in (FixedWindowRateLimiter, SlidingWindowCounterRateLimiter):
            connected.flushall()
            rate_limits(limited_by)
    print(f"locks of redis-py and limits {limits.__version__}, RESP{protocol}: as it should be")
