"""Locks and rate limits by scripts, of redis-py, pottery and limits, on folded keys of the server or proxy at KEYFOLD_ADDR;
fails on the first wrong answer."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import limits
import redis
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter, SlidingWindowCounterRateLimiter
from pottery import ExtendUnlockedLock, Redlock, ReleaseUnlockedLock, TooManyExtensions
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


class FoldedRedlock(Redlock):
    """The same under a name that is folded."""

    _KEY_PREFIX = "cnt"


def redlock(client, **more):
    return FoldedRedlock(key="red", masters={client}, raise_on_redis_errors=True, **{"auto_release_time": 100, **more})


def redlocks(client):
    lock, other = redlock(client, num_extensions=1), redlock(client)
    check(lock.key, "cnt:red")
    check(lock.acquire(), True)
    check(other.acquire(blocking=False), False)
    check(90 < lock.locked() <= 100, True)
    check(other.locked(), 0)
    client.expire(lock.key, 50)
    # The script is forgotten while the lock is held.
    client.script_flush()
    lock.extend()
    check(90 < client.ttl(lock.key) <= 100, True)
    refused(lock.extend, TooManyExtensions)
    refused(other.release, ReleaseUnlockedLock)
    lock.release()
    check(client.exists(lock.key), 0)
    refused(other.extend, ExtendUnlockedLock)
    # Nobody gives this one back: it ends by itself.
    check(redlock(client, auto_release_time=0.2).acquire(), True)
    check(other.acquire(timeout=60), True)
    client.persist(lock.key)
    other.extend()
    check(90 < client.ttl(lock.key) <= 100, True)
    other.release()


def one_holds_at_a_time(make):
    """What those who hold the lock write one after the other adds up, though nothing else sees to that."""

    def work(_):
        with redis.Redis(host=HOST, port=int(PORT), socket_timeout=20) as own:
            for _ in range(5):
                with make(own):
                    before = int(own.get("cnt:sum") or 0)
                    time.sleep(0.001)
                    own.set("cnt:sum", before + 1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def contention(client):
    for make in (redlock, lambda own: own.lock(LOCK, timeout=100, sleep=0.005)):
        one_holds_at_a_time(make)
        check(client.getdel("cnt:sum"), b"20")
        check(client.exists(LOCK, "cnt:red"), 0)


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
        redlocks(connected)
        contention(connected)
        for limited_by in (FixedWindowRateLimiter, SlidingWindowCounterRateLimiter):
            connected.flushall()
            rate_limits(limited_by)
    print(f"locks of redis-py, pottery {version('pottery')} and limits {limits.__version__}, RESP{protocol}: as it should be")
