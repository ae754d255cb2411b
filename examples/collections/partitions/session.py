"""A session of join.py with the keyfold at KEYFOLD_ADDR, which has the layout beside this file. Fails on the first wrong answer."""

import os
import threading

import redis

from join import join_all

PARTITIONS = 16
KEYS = range(20)
MEMBERS = range(1000)


def check(is_, expected):
    if is_ != expected:
        raise SystemExit(f"{is_!r} instead of {expected!r}")


def client():
    host, port = os.environ["KEYFOLD_ADDR"].rsplit(":", 1)
    return redis.Redis(host=host, port=int(port))


def refused(*arguments):
    try:
        join_all(*arguments)
    except (SystemExit, redis.ResponseError):
        return
    raise SystemExit(f"{arguments[1:]} were joined")


through = client()
through.flushall()
for key in KEYS:
    with through.pipeline(transaction=False) as pipe:
        for member in MEMBERS:
            pipe.sadd(f"followers:{key}:{member % PARTITIONS}", member)
            pipe.hset(f"cart:{key}:{member % PARTITIONS}", f"item{member}", key + member)
        pipe.execute()

# Followers come and go meanwhile, by the second of the two releases.
added, done = [], threading.Event()


def follow():
    own = client()
    while not done.is_set() or len(added) < 100:
        key, member = len(added) % len(KEYS), 5000 + len(added)
        with own.pipeline() as pipe:
            pipe.srem(f"followers:{key}:{member % PARTITIONS}", member).sadd(f"followers:{key}", member)
            pipe.srem(f"followers:{key}", 0).srem(f"followers:{key}:0", 0)
            pipe.execute()
        added.append((key, member))


following = threading.Thread(target=follow)
following.start()
check(join_all(through, "followers:*", PARTITIONS), len(KEYS))
check(join_all(through, "cart:*", PARTITIONS), len(KEYS))
done.set()
following.join()
for key in KEYS:
    new = {b"%d" % member for of, member in added if of == key}
    check(through.smembers(f"followers:{key}"), {b"%d" % member for member in MEMBERS if member > 0} | new)
    check(through.hgetall(f"cart:{key}"), {b"item%d" % member: b"%d" % (key + member) for member in MEMBERS})
check(len(list(through.scan_iter("*:*:*"))), 0)

# What can't be joined stays.
through.set("followers:1:3", "a string")
through.sadd("followers:1:4", "x")
refused(through, "followers:*", PARTITIONS)
check((through.get("followers:1:3"), through.smembers("followers:1:4")), (b"a string", {b"x"}))
through.hset("cart:1:5", "item5", "another")
refused(through, "cart:*", PARTITIONS)
check((through.hget("cart:1:5", "item5"), through.hget("cart:1", "item5")), (b"another", b"6"))
through.delete("cart:1:5")
with through.pipeline(transaction=False) as pipe:
    for number in range(PARTITIONS):
        pipe.sadd(f"followers:2:{number}", *range(number * 20_000, (number + 1) * 20_000))
    pipe.execute()
through.delete("followers:1:3")
refused(through, "followers:*", PARTITIONS)
check(through.scard("followers:2:15"), 20_000)
through.hset("cart:1:5", "item-new", "1")
through.expire("cart:1:5", 10_000)
refused(through, "cart:*", PARTITIONS)
through.persist("cart:1:5")
check(join_all(through, "cart:*", PARTITIONS), 1)
check((through.hget("cart:1", "item-new"), through.exists("cart:1:5")), (b"1", 0))

# When fields expire goes with them.
through.hset("cart:3:5", mapping={"item-brief": "1", "item-lasting": "2", "item-other": "3"})
try:
    through.execute_command("HPEXPIREAT", "cart:3:5", 2_000_000_000_000, "FIELDS", 2, "item-brief", "item-other")
except redis.ResponseError:
    print("partitions: fields of plain hashes don't expire on this server")
else:
    check(join_all(through, "cart:*", PARTITIONS), 1)
    names = ["item-brief", "item-lasting", "item-other", "item5"]
    times = through.execute_command("HPEXPIRETIME", "cart:3", "FIELDS", len(names), *names)
    check(times, [2_000_000_000_000, -1, 2_000_000_000_000, -1])
print("partitions: all as it should be")
