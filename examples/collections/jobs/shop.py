"""Other small sets and hashes of an application: sessions, feature flags, followers.

    session:…      a hash: user, ip, seen, hits, and what pages add
    flags:7        a set: what is switched on for account 7
    followers:7    a set: who follows user 7
"""

IDLE_S = 1800


class Shop:
    """`client` is one of redis-py; `prefix` stands before the keys."""

    def __init__(self, client, prefix=""):
        self.client, self.prefix = client, prefix

    def log_in(self, session, user, ip, now):
        key = f"{self.prefix}session:{session}"
        with self.client.pipeline(transaction=True) as pipe:
            pipe.hset(key, mapping={"user": user, "ip": ip, "seen": now, "hits": 0})
            pipe.expire(key, IDLE_S)
            pipe.execute()

    def visit(self, session, now):
        """The session, or None where it is over; from now on it lives as long again."""
        key = f"{self.prefix}session:{session}"
        # HSETNX and HINCRBY would make a session anew that has expired: so a look first, and WATCH between.
        def step(pipe):
            known = pipe.exists(key)
            pipe.multi()
            if known:
                pipe.hset(key, "seen", now)
                pipe.hincrby(key, "hits", 1)
                pipe.expire(key, IDLE_S)
                pipe.hgetall(key)

        answers = self.client.transaction(step, key)
        return answers[-1] if answers else None

    def log_out(self, session):
        return self.client.unlink(f"{self.prefix}session:{session}")

    def switch(self, account, flag, on):
        key = f"{self.prefix}flags:{account}"
        return self.client.sadd(key, flag) if on else self.client.srem(key, flag)

    def is_on(self, account, *flags):
        """Several at once, with one request."""
        answers = self.client.smismember(f"{self.prefix}flags:{account}", flags)
        return dict(zip(flags, map(bool, answers)))

    def follow(self, user, *followers):
        return self.client.sadd(f"{self.prefix}followers:{user}", *followers)

    def follow_both(self, one, other):
        return self.client.sinter(f"{self.prefix}followers:{one}", f"{self.prefix}followers:{other}")

    def follow_any(self, *users):
        return self.client.sunion([f"{self.prefix}followers:{user}" for user in users])
