"""A session of the example with the keyfold at KEYFOLD_ADDR, which has the layout beside this file, with a second keyfold before
the same server, and with that server itself under keys that aren't folded: all must answer the same. Fails on the first wrong
answer."""

import json
import os
import random
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import redis

from shop import IDLE_S, Shop
from waiting import Waiting

KEYFOLD = os.environ["KEYFOLD"]
WORKERS = 24
# Under a prefix that the layout doesn't name, keys are plain.
PLAIN = "plain:"
SESSION = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"


def check(is_, expected):
    if is_ != expected:
        raise SystemExit(f"{is_!r} instead of {expected!r}")


def client(address):
    host, port = address.rsplit(":", 1)
    return redis.Redis(host=host, port=int(port), decode_responses=True, max_connections=4 * WORKERS)


def second_keyfold(server):
    """Its process and its address."""
    serve = [KEYFOLD, "serve", server, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    said = process.stdout.readline()
    if not said.startswith("listening on "):
        raise SystemExit(f"a second keyfold said {said!r}")
    return process, said.split()[-1]


def where(key):
    said = subprocess.run([KEYFOLD, "where", "--json", SERVER, key], capture_output=True)
    check((said.returncode, said.stderr), (0, b""))
    return json.loads(said.stdout)


def each(work):
    """What a plain key and a folded one answer, through either keyfold: the same."""
    plain = work(direct, PLAIN)
    for through in keyfolds:
        check(work(through, ""), plain)
    return plain


def at_once(works):
    """Runs all of them by WORKERS threads, none of which begins before all are there; an error of one is an error here."""
    works, barrier = list(works), threading.Barrier(WORKERS)

    def worker(number):
        barrier.wait(60)
        return [work() for work in works[number::WORKERS]]

    with ThreadPoolExecutor(WORKERS) as pool:
        return [answer for answers in pool.map(worker, range(WORKERS)) for answer in answers]


def clients_in_turn(folded):
    """Who works on it: both keyfolds in turn, or the server itself."""
    return keyfolds if folded else [direct]


def family(parents, children):
    """The children of each parent, and who reports them: each twice, as a queue may hand one out again, and those of one parent by
    all workers at about one moment."""
    tree, reports, dice = {}, [], random.Random(1)
    for parent in range(1, parents + 1):
        tree[parent] = range(parent * 1000, parent * 1000 + children)
        twice = [(parent, child) for child in tree[parent]] * 2
        dice.shuffle(twice)
        reports += twice
    return tree, reports


def two_that_ask_apart_both_act(connection, prefix):
    """Why `finish` is a transaction: SREM and SCARD one after the other, of two workers at one moment."""
    waiting = Waiting(connection, prefix)
    waiting.begin(1, [11, 12])
    removed = [connection.srem(waiting.key(1), 11), connection.srem(waiting.key(1), 12)]
    return removed, [waiting.left(1), waiting.left(1)]


def one_goes_on_with_each_parent(folded, parents, children):
    prefix = "" if folded else PLAIN
    tree, reports = family(parents, children)
    turn = clients_in_turn(folded)
    waits = [Waiting(connection, prefix) for connection in turn]
    for parent, ones in tree.items():
        waits[0].begin(parent, ones)
    check([waits[-1].left(parent) for parent in tree], [children] * parents)
    acts = at_once(
        (lambda at=at, parent=parent, child=child: (parent, waits[at % len(waits)].finish(parent, child)))
        for at, (parent, child) in enumerate(reports)
    )
    check(len(acts), 2 * parents * children)
    check(Counter(parent for parent, is_last in acts if is_last), Counter(list(tree)))
    check([turn[0].exists(waits[0].key(parent)) for parent in tree], [0] * parents)


def each_parent_is_queued_once(folded, parents, children):
    prefix = "" if folded else PLAIN
    tree, reports = family(parents, children)
    turn = clients_in_turn(folded)
    waits = [Waiting(connection, prefix) for connection in turn]
    for parent, ones in tree.items():
        waits[0].begin(parent, ones)
    at_once(
        (lambda at=at, parent=parent, child=child: waits[at % len(waits)].finish_into_queue(parent, child))
        for at, (parent, child) in enumerate(reports)
    )
    check(sorted(map(int, direct.lrange(f"{prefix}ready", 0, -1))), sorted(tree))
    check([turn[0].exists(waits[0].key(parent)) for parent in tree], [0] * parents)
    direct.delete(f"{prefix}ready")


def neighbours_share_a_bucket():
    waiting = Waiting(keyfolds[0])
    for parent in (32, 33, 40):
        waiting.begin(parent, range(parent * 1000, parent * 1000 + 5))
    told = [where(waiting.key(parent)) for parent in (32, 33, 40)]
    check(len({one["physical"] for one in told}), 1)
    check({(one["type"], one["bucket's encoding"], one["members"]) for one in told}, {("set", "listpack", 5)})
    # What one keyfold wrote the other reads.
    check(keyfolds[1].smembers(waiting.key(33)), {str(33000 + at) for at in range(5)})
    check(direct.exists(waiting.key(33)), 0)
    keyfolds[1].delete(*map(waiting.key, (32, 33, 40)))
    check(direct.exists(told[0]["physical"]), 0)


def sessions_live_as_long_as_they_are_used(connection, prefix):
    shop, key = Shop(connection, prefix), f"{prefix}session:{SESSION}"
    shop.log_in(SESSION, 7, "192.0.2.1", 1000)
    answers = [connection.type(key), shop.visit(SESSION, 1001), shop.visit(SESSION, 1002)]
    check(IDLE_S - 60 < connection.ttl(key) <= IDLE_S, True)
    answers += [connection.hmget(key, "user", "none"), connection.hdel(key, "ip"), connection.hlen(key)]
    answers += [connection.hsetnx(key, "user", 8), connection.hincrbyfloat(key, "spent", 1.25), shop.visit(SESSION, 1003)]
    answers += [connection.hset(key, "cart", "x" * 500), connection.hstrlen(key, "cart"), connection.hdel(key, "cart")]
    answers += [shop.log_out(SESSION), shop.visit(SESSION, 1004), connection.exists(key)]
    # One that is over doesn't come back by a visit.
    shop.log_in(SESSION, 7, "192.0.2.1", 1000)
    connection.pexpire(key, 1)
    comes_to_be("no session", lambda: not connection.exists(key))
    return answers + [shop.visit(SESSION, 1005), connection.exists(key)]


def visits_are_all_counted(folded):
    prefix = "" if folded else PLAIN
    shops = [Shop(connection, prefix) for connection in clients_in_turn(folded)]
    shops[0].log_in(SESSION, 7, "192.0.2.1", 1000)
    seen = at_once((lambda at=at: shops[at % len(shops)].visit(SESSION, at)["hits"]) for at in range(4 * WORKERS))
    check(sorted(map(int, seen)), list(range(1, 4 * WORKERS + 1)))
    check(shops[-1].log_out(SESSION), 1)


def fields_expire(connection):
    """Before every server, folded."""
    key = f"session:{SESSION}"
    connection.hset(key, mapping={"user": 7, "token": "abc"})
    check(connection.hexpire(key, 100, "token", "none"), [1, -2])
    check((0 < connection.httl(key, "token")[0] <= 100, connection.httl(key, "user")), (True, [-1]))
    check(connection.hpexpire(key, 1, "token"), [1])
    comes_to_be("no token", lambda: connection.hgetall(key) == {"user": "7"})
    check(connection.delete(key), 1)


def flags_are_switched_and_asked(connection, prefix):
    shop, key = Shop(connection, prefix), f"{prefix}flags:7"
    answers = [shop.switch(7, flag, True) for flag in ("beta", "dark-mode", "beta")]
    answers += [shop.is_on(7, "beta", "new-cart", "dark-mode"), shop.switch(7, "beta", False), shop.is_on(7, "beta")]
    answers += [sorted(connection.smembers(key)), connection.sismember(key, "dark-mode"), shop.is_on(8, "beta")]
    return answers + [shop.switch(7, "dark-mode", False), shop.switch(7, "dark-mode", False), connection.exists(key)]


def followers_meet(connection, prefix):
    shop = Shop(connection, prefix)
    of = lambda user: f"{prefix}followers:{user}"
    answers = [shop.follow(1, 10, 11, 12, 13), shop.follow(2, 12, 13, 14), shop.follow(40, 13, 99), shop.follow(2, 12)]
    answers += [sorted(shop.follow_both(1, 2)), sorted(shop.follow_both(1, 3)), sorted(shop.follow_any(1, 2, 40))]
    answers += [sorted(connection.sdiff(of(1), of(2))), connection.sinterstore(of(50), of(1), of(2), of(40))]
    # A set that isn't folded takes part.
    connection.sadd(f"{PLAIN}staff", 11, 13)
    answers += [sorted(connection.sinter(of(1), f"{PLAIN}staff")), connection.sunionstore(f"{PLAIN}all", of(1), of(2))]
    answers += [connection.smove(of(1), of(2), 10), connection.scard(of(1)), sorted(connection.smembers(of(2)))]
    answers += [sorted(connection.sscan_iter(of(2))), sorted(connection.smembers(of(50)))]
    return answers + [connection.unlink(of(1), of(2), of(40), of(50), f"{PLAIN}staff", f"{PLAIN}all")]


def comes_to_be(what, is_):
    deadline = time.monotonic() + 60
    while not is_():
        if time.monotonic() > deadline:
            raise SystemExit(f"never came to be: {what}")


first = client(os.environ["KEYFOLD_ADDR"])
SERVER = first.info("keyfold")["keyfold_server"]
direct = redis.Redis.from_url(SERVER, decode_responses=True, max_connections=4 * WORKERS)
first.flushall()
process, address = second_keyfold(SERVER)
try:
    keyfolds = [first, client(address)]
    check(each(two_that_ask_apart_both_act), ([1, 1], [0, 0]))
    for folded in (False, True):
        one_goes_on_with_each_parent(folded, parents=40, children=12)
        # Longer than the limit: each in a key of its own, until it has become short enough.
        one_goes_on_with_each_parent(folded, parents=2, children=300)
        each_parent_is_queued_once(folded, parents=40, children=6)
        visits_are_all_counted(folded)
    neighbours_share_a_bucket()
    each(sessions_live_as_long_as_they_are_used)
    for through in keyfolds:
        fields_expire(through)
    each(flags_are_switched_and_asked)
    each(followers_meet)
    # Nothing is left, plain or folded; what was spilled to keys of its own the sweep takes away, a moment later.
    comes_to_be("an empty server", lambda: all(key.startswith("keyfold:") for key in direct.scan_iter()))
finally:
    process.terminate()
    process.wait(60)
print(f"redis-py {redis.__version__}, jobs, sessions, flags and followers in two keyfolds: as it should be")
