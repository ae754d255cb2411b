"""Writes 20,000 of each, or as many as are said, to the server or keyfold at REDIS_URL: to see what they take, plain and folded."""

import os
import random
import sys
import uuid

import redis

from shop import Shop
from waiting import Waiting

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
FLAGS = ["beta", "dark-mode", "new-cart", "fast-search", "gift-cards", "two-factor", "weekly-mail", "api-v2"]
dice = random.Random(1)
client = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"))


def each(name, write):
    before = client.info("memory")["used_memory"]
    for number in range(COUNT):
        write(number)
    print(f"{name}: {(client.info('memory')['used_memory'] - before) / COUNT:.1f} bytes each")


waiting, shop = Waiting(client), Shop(client)
each("jobs of 8 children", lambda job: waiting.begin(job, range(8 * job, 8 * job + 8)))
each(
    "sessions of 4 fields",
    lambda user: shop.log_in(uuid.UUID(int=dice.getrandbits(128), version=4), user, f"192.0.2.{user % 256}", 1_700_000_000 + user),
)
each("flags, 3 of 8", lambda account: client.sadd(f"flags:{account}", *dice.sample(FLAGS, 3)))
each("10 followers", lambda user: shop.follow(user, *(dice.randrange(COUNT) for _ in range(10))))
