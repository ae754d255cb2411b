"""A cache of bundles in Django's: all parts of a product are read with one get_many, written at one moment, and expire together.

    product:7:at      until when the bundle is fresh, how long loading it took, and whether there is such a product
    product:7:name    a part
    product:7:lock    who loads it now

Whoever finds a fresh bundle has it. Of those who find a stale one, one loads it, and all others have the stale one meanwhile.
Of those who find none, one loads it, and all others wait for that one.
"""

import math
import random
import time

from django_redis import get_redis_connection

PARTS = ("name", "price", "stock")
FRESH_S = 60  # as long it is taken as it is
STALE_S = 600  # as long after that it is still better than waiting
ABSENT_S = 5  # as long is remembered that there is none
LOCK_S = 10  # longer than any load takes; after that another one may begin


def keys(product):
    return {part: f"product:{product}:{part}" for part in ("at", *PARTS)}


class Bundles:
    """`load` gives a product's parts by their names, or None where there is no such product."""

    def __init__(self, cache, load, beta=1.0, clock=time.time, dice=random.random):
        self.cache, self.load, self.beta, self.clock, self.dice = cache, load, beta, clock, dice

    def get(self, product):
        seen = self.read(product)
        if seen and not self.is_due(seen):
            return seen["values"]
        lock = self.cache.lock(f"product:{product}:lock", timeout=LOCK_S, sleep=0.01)
        if not lock.acquire(blocking=seen is None):
            return seen["values"]
        try:
            # Another may have loaded it since it was looked for.
            now = self.read(product)
            if now and (not seen or now["fresh_until"] != seen["fresh_until"]):
                return now["values"]
            return self.refresh(product)
        finally:
            lock.release()

    def read(self, product):
        """One request, and through keyfold one HMGET."""
        found = self.cache.get_many(keys(product).values())
        at, *values = (found.get(key) for key in keys(product).values())
        if at is None:
            return None
        fresh_until, took_s, exists = at
        # A part alone may be gone, where the server evicts.
        if exists and None in values:
            return None
        return {"fresh_until": fresh_until, "took_s": took_s, "values": dict(zip(PARTS, values)) if exists else None}

    def is_due(self, seen):
        """XFetch: the nearer the end, and the longer loading takes, the likelier one request refreshes before others wait."""
        chance = -math.log(self.dice() or 1e-300)
        return self.clock() + seen["took_s"] * self.beta * chance >= seen["fresh_until"]

    def refresh(self, product):
        began = self.clock()
        values = self.load(product)
        took_s = self.clock() - began
        names = keys(product)
        if values is None:
            # That there is none is an entry too, or each request for it would ask the database.
            self.cache.delete_many([names[part] for part in PARTS])
            self.cache.set(names["at"], (self.clock() + ABSENT_S, took_s, False), ABSENT_S)
            return None
        entries = {names[part]: values[part] for part in PARTS}
        entries[names["at"]] = (self.clock() + FRESH_S, took_s, True)
        self.cache.set_many(entries, FRESH_S + STALE_S)
        return values

    def forget(self, product):
        """All of it gone, with one request."""
        self.cache.delete_many(keys(product).values())

    def expire(self, product, seconds):
        """All of it gone in a while: sent together, commands on one bucket are one command for the server."""
        with get_redis_connection("default").pipeline(transaction=False) as pipe:
            for key in keys(product).values():
                pipe.expire(self.cache.make_key(key), seconds)
            pipe.execute()
