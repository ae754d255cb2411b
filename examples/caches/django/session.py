"""A session of the bundles in Django's cache with the keyfold at KEYFOLD_ADDR, which has the layout beside this file; fails on
the first wrong answer."""

import json
import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

os.environ["REDIS_URL"] = f"redis://{os.environ['KEYFOLD_ADDR']}/0"
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"

import django
from django.core.cache import caches
from django_redis import get_redis_connection

import bundles
from bundles import Bundles

django.setup()
client = get_redis_connection("default")
LAMP = {"name": "Lamp", "price": 12.5, "stock": 3}
THREADS = 32


def check(is_, expected):
    if is_ != expected:
        raise SystemExit(f"{is_!r} instead of {expected!r}")


class Database:
    """What the cache asks: products by id, how often each was loaded, and an event that holds loads back."""

    def __init__(self):
        self.products, self.loads, self.ready = {7: LAMP}, 0, threading.Event()
        self.ready.set()
        self.counting = threading.Lock()

    def load(self, product):
        with self.counting:
            self.loads += 1
        self.ready.wait(60)
        return self.products.get(product)


def where(key):
    said = subprocess.run([os.environ["KEYFOLD"], "where", "--json", os.environ["KEYFOLD_SERVER"], key], capture_output=True)
    check((said.returncode, said.stderr), (0, b""))
    return json.loads(said.stdout)


def server_calls(work, *names):
    """What the server behind was asked to do meanwhile, of these commands."""

    def calls():
        told = client.info("commandstats")
        return [told.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names]

    before = calls()
    work()
    return [after - before for after, before in zip(calls(), before)]


def at_once(work):
    """What all threads get, of which none begins before all are there."""
    barrier = threading.Barrier(THREADS)
    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(lambda: (barrier.wait(60), work())[1]) for _ in range(THREADS)]
        return [future.result(60) for future in futures]


def comes_to_be(what, is_):
    deadline = time.monotonic() + 60
    while not is_():
        if time.monotonic() > deadline:
            raise SystemExit(f"never came to be: {what}")


def many_requests_are_one_load():
    database = Database()
    check(at_once(lambda: Bundles(caches["default"], database.load).get(7)), [LAMP] * THREADS)
    check(database.loads, 1)
    check(client.exists(":1:product:7:lock"), 0)


def a_bundle_is_one_bucket_and_one_request():
    shelf = Bundles(caches["default"], None)
    names = [caches["default"].make_key(key) for key in bundles.keys(7).values()]
    check(names[0], ":1:product:7:at")
    told = [where(key) for key in names]
    check({one["bucket's encoding"] for one in told}, {"listpack"})
    check(len({one["physical"] for one in told}), 1)
    check(server_calls(lambda: check(shelf.get(7), LAMP), "hmget", "evalsha", "eval"), [1, 0, 0])
    check(len({client.pexpiretime(key) for key in names} - {-1, -2}), 1)


def a_stale_bundle_is_answered_and_one_loads_it():
    database = Database()
    dearer = {**LAMP, "price": 13.0}
    database.products[7] = dearer
    ahead = bundles.FRESH_S
    database.ready.clear()
    late = Bundles(caches["default"], database.load, clock=lambda: time.time() + ahead)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(late.get, 7)
        comes_to_be("a load", lambda: database.loads == 1)
        # It is held back, and yet all others have their answers: the old one.
        check(at_once(lambda: late.get(7)), [LAMP] * THREADS)
        database.ready.set()
        check(first.result(60), dearer)
    check(at_once(lambda: late.get(7)), [dearer] * THREADS)
    check(database.loads, 1)


def a_refresh_comes_early_by_chance_and_once():
    # It took a tenth of a second, and stays fresh for 10: -ln(0.5) tenths are far from the end, -ln(1e-60) beyond it.
    at = lambda: caches["default"].set("product:7:at", (time.time() + 10, 0.1, True), 100)
    at()
    database = Database()
    check(len(at_once(lambda: Bundles(caches["default"], database.load, dice=lambda: 0.5).get(7))), THREADS)
    check(database.loads, 0)
    eager = Bundles(caches["default"], database.load, dice=lambda: 1e-60)
    database.ready.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(eager.get, 7)
        comes_to_be("a load", lambda: database.loads == 1)
        check({answer["name"] for answer in at_once(lambda: eager.get(7))}, {"Lamp"})
        database.ready.set()
        check(first.result(60), LAMP)
    check(database.loads, 1)


def what_is_not_there_is_remembered():
    database = Database()
    shelf = Bundles(caches["default"], database.load)
    check(at_once(lambda: shelf.get(8)), [None] * THREADS)
    check(database.loads, 1)
    check(0 < client.ttl(":1:product:8:at") <= bundles.ABSENT_S, True)
    # What comes to be there is told at once by who makes it.
    database.products[8] = LAMP
    shelf.forget(8)
    check(shelf.get(8), LAMP)


def the_whole_expires_and_is_forgotten():
    database = Database()
    shelf = Bundles(caches["default"], database.load)
    names = [caches["default"].make_key(key) for key in bundles.keys(7).values()]
    shelf.expire(7, 100)
    check(server_calls(lambda: shelf.expire(7, 50), "evalsha", "eval"), [1, 0])
    check(all(0 < client.ttl(key) <= 50 for key in names), True)
    shelf.expire(7, 1)
    comes_to_be("no bundle", lambda: client.exists(*names) == 0)
    shelf.get(7)
    check(server_calls(lambda: shelf.forget(7), "hmget", "hdel", "exec"), [1, 1, 1])
    check(client.exists(*names), 0)
    # Who held the lock and failed has given it back.
    try:
        Bundles(caches["default"], lambda product: 1 // 0).get(7)
        raise SystemExit("no error")
    except ZeroDivisionError:
        check(client.exists(":1:product:7:lock"), 0)


def djangos_own_backend_does_the_same():
    own, theirs = caches["own"], caches["default"]
    parts = {"product:9:name": "Chair", "product:9:price": 80, "product:9:note": None}
    own.set_many(parts, timeout=100)
    check(server_calls(lambda: check(own.get_many(parts), parts), "hmget", "evalsha", "eval"), [1, 0, 0])
    check(server_calls(lambda: own.set_many(parts, timeout=100), "hmget", "evalsha", "eval"), [1, 1, 0])
    check(theirs.get_many(parts), parts)
    check(where(":1:product:9:name")["physical"], where(":1:product:9:price")["physical"])
    # A value of None is a negative entry, which a default tells from none.
    check((own.get("product:9:note", "none"), own.get("product:9:other", "none")), (None, "none"))
    check((own.add("product:9:price", 1), own.incr("product:9:price", 5), own.touch("product:9:price", 50)), (False, 85, True))
    check(0 < client.ttl(":1:product:9:price") <= 50, True)
    # Other versions of a key are fields of the same bucket.
    own.set_many(parts, version=2)
    check(where(":2:product:9:name")["physical"], where(":1:product:9:name")["physical"])
    check(own.incr_version("product:9:name", version=2), 3)
    check((own.get("product:9:name", version=3), own.get("product:9:name", version=2)), ("Chair", None))
    check(own.get_or_set("greeting", lambda: "hello", 100), "hello")
    check(where(":1:greeting")["bucket's encoding"], "listpack")
    own.delete_many(parts)
    check(own.get_many(parts), {})
    check(len(own.get_many(parts, version=2)), 2)


client.flushall()
many_requests_are_one_load()
a_bundle_is_one_bucket_and_one_request()
a_stale_bundle_is_answered_and_one_loads_it()
a_refresh_comes_early_by_chance_and_once()
what_is_not_there_is_remembered()
the_whole_expires_and_is_forgotten()
djangos_own_backend_does_the_same()
print(f"Django {django.get_version()}, its own cache and django-redis: as it should be")
