"""Joins sets or hashes that an application has split by hand: the partitions followers:7:0 to followers:7:15 become followers:7.

    python join.py 127.0.0.1:6380 'followers:*' 16

Each in transactions that do nothing where a partition was written meanwhile, and are tried again then: so no member is lost,
and what stays is joined by the next run. docs/sources.md says what the application does meanwhile."""

import re
import sys

import redis

# Joining more would hold up the server for seconds.
MOST = 262_144


def join_set(client, key, partitions):
    with client.pipeline() as pipe:
        while True:
            try:
                pipe.watch(*partitions)
                pipe.sunionstore(key, key, *partitions)  # An error ends it here, before anything is removed.
                pipe.multi()
                pipe.unlink(*partitions)
                pipe.execute()
                return
            except redis.WatchError:
                continue


def expiries(pipe, partition, fields):
    """The fields that expire, by when they do."""
    try:
        times = pipe.execute_command("HPEXPIRETIME", partition, "FIELDS", len(fields), *fields)
    except redis.ResponseError as error:
        if "unknown command" not in str(error).lower():
            raise
        return {}  # A server before Redis 7.4 or Valkey 9: there are none.
    by_time = {}
    for field, at_ms in zip(fields, times):
        if at_ms != -1:
            by_time.setdefault(max(at_ms, 1), []).append(field)  # -2: in this very millisecond.
    return by_time


def join_hash(client, key, partition):
    with client.pipeline() as pipe:
        while True:
            try:
                pipe.watch(partition)
                fields = pipe.hgetall(partition)
                if not fields:
                    return
                by_time = expiries(pipe, partition, list(fields))
                there = pipe.hmget(key, list(fields))
                twice = [field for field, value in zip(fields, there) if value is not None]
                pipe.multi()
                if twice:
                    pipe.exists(partition)
                else:
                    pipe.hset(key, mapping=fields)
                    for at_ms, names in by_time.items():
                        pipe.execute_command("HPEXPIREAT", key, at_ms, "FIELDS", len(names), *names)
                    pipe.unlink(partition)
                pipe.execute()
                if twice:
                    raise SystemExit(f"{twice[0]!r} is in {partition!r} and in {key!r}: remove it from one of them, and run this again")
                return
            except redis.WatchError:
                continue


def join_all(client, glob, count):
    """Joins what the beginnings that match the glob have; how many these are."""
    name = re.compile("(" + re.escape(glob).replace(r"\*", "[^:]+") + "):[0-9]+")
    found = (name.fullmatch(key.decode()) for key in client.scan_iter(glob + ":*", count=1000))
    keys = {match[1] for match in found if match}
    for key in sorted(keys):
        partitions = [f"{key}:{number}" for number in range(count)]
        if any(client.pttl(partition) >= 0 for partition in partitions):
            raise SystemExit(f"a partition of {key} expires: take that off (PERSIST), or leave them as they are")
        is_hash = "hash" in {client.type(partition).decode() for partition in partitions}
        size = client.hlen if is_hash else client.scard
        if sum(size(part) for part in [key, *partitions]) > MOST:
            raise SystemExit(f"{key} has more than {MOST} members: leave its partitions as they are")
        if is_hash:
            for partition in partitions:
                join_hash(client, key, partition)
        else:
            join_set(client, key, partitions)
    return len(keys)


if __name__ == "__main__":
    address, glob, count = sys.argv[1:]
    host, port = address.rsplit(":", 1)
    print(join_all(redis.Redis(host=host, port=int(port)), glob, int(count)), "joined")
