"""Django's settings, as far as caches go. Both backends have the same keys, and read each other's values."""

import os

REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6380/0")
CACHES = {
    "default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": REDIS_URL, "TIMEOUT": 600},
    "own": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL, "TIMEOUT": 600},
}
