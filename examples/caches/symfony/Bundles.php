<?php

declare(strict_types=1);

use Psr\Cache\CacheItemPoolInterface;

/**
 * A cache of bundles in a pool of Symfony's: all parts of a product are read with one MGET, written with one pipeline, and
 * expire together.
 *
 *   product.7.at      until when the bundle is fresh, how long loading it took, and whether there is such a product
 *   product.7.name    a part
 *   product.7.lock    who loads it now
 *
 * Whoever finds a fresh bundle has it. Of those who find a stale one, one loads it, and all others have the stale one meanwhile.
 * Of those who find none, one loads it, and all others wait for that one.
 */
final class Bundles
{
    public const PARTS = ['name', 'price', 'stock'];
    public const FRESH = 60; // seconds that it is taken as it is
    public const STALE = 600; // seconds after that in which it is still better than waiting
    public const ABSENT = 5; // seconds in which is remembered that there is none
    public const LOCK = 10; // longer than any load takes; after that another one may begin

    // A lock is given back only by who holds it: it may have expired, and be somebody else's.
    private const RELEASE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0';

    /** `$load` gives a product's parts by their names, or null where there is no such product. */
    public function __construct(
        private CacheItemPoolInterface $pool,
        private \Redis $redis,
        private \Closure $load,
        private float $beta = 1.0,
        private ?\Closure $clock = null,
        private ?\Closure $dice = null,
    ) {
        $this->clock ??= static fn (): float => microtime(true);
        $this->dice ??= static fn (): float => random_int(1, \PHP_INT_MAX) / \PHP_INT_MAX;
    }

    public function get(int $product): ?array
    {
        $seen = $this->read($product);
        if ($seen && !$this->isDue($seen)) {
            return $seen['values'];
        }
        $lock = "shop:product.$product.lock";
        $token = bin2hex(random_bytes(16));
        while (!$this->redis->set($lock, $token, ['nx', 'ex' => self::LOCK])) {
            if ($seen) {
                return $seen['values'];
            }
            usleep(10_000);
        }
        try {
            // Another may have loaded it since it was looked for.
            $now = $this->read($product);
            if ($now && $now['freshUntil'] !== ($seen['freshUntil'] ?? null)) {
                return $now['values'];
            }

            return $this->refresh($product);
        } finally {
            $this->redis->eval(self::RELEASE, [$lock, $token], 1);
        }
    }

    /** All of it gone, with one request. */
    public function forget(int $product): void
    {
        $this->pool->deleteItems($this->keys($product));
    }

    /** All of it gone in a while: sent together, commands on one bucket are one command for the server. */
    public function expire(int $product, int $seconds): void
    {
        $pipe = $this->redis->pipeline();
        foreach ($this->keys($product) as $key) {
            $pipe->expire("shop:$key", $seconds);
        }
        $pipe->exec();
    }

    public function keys(int $product): array
    {
        return array_map(static fn (string $part): string => "product.$product.$part", ['at', ...self::PARTS]);
    }

    /** One request, and through keyfold one HMGET. */
    private function read(int $product): ?array
    {
        $items = array_values(iterator_to_array($this->pool->getItems($this->keys($product))));
        $at = array_shift($items);
        if (!$at->isHit()) {
            return null;
        }
        [$freshUntil, $took, $exists] = $at->get();
        foreach ($exists ? $items : [] as $item) {
            // A part alone may be gone, where the server evicts.
            if (!$item->isHit()) {
                return null;
            }
        }
        $values = $exists ? array_combine(self::PARTS, array_map(static fn ($item) => $item->get(), $items)) : null;

        return ['freshUntil' => $freshUntil, 'took' => $took, 'values' => $values];
    }

    /** XFetch: the nearer the end, and the longer loading takes, the likelier one request refreshes before others wait. */
    private function isDue(array $seen): bool
    {
        return ($this->clock)() - $seen['took'] * $this->beta * log(($this->dice)()) >= $seen['freshUntil'];
    }

    private function refresh(int $product): ?array
    {
        $began = ($this->clock)();
        $values = ($this->load)($product);
        $now = ($this->clock)();
        $parts = $this->keys($product);
        $at = array_shift($parts);
        if (null === $values) {
            // That there is none is an entry too, or each request for it would ask the database.
            $this->pool->deleteItems($parts);
            $this->save([$at => [$now + self::ABSENT, $now - $began, false]], self::ABSENT);
        } else {
            $entries = array_combine($parts, array_map(static fn (string $part) => $values[$part], self::PARTS));
            $this->save($entries + [$at => [$now + self::FRESH, $now - $began, true]], self::FRESH + self::STALE);
        }

        return $values;
    }

    /** Deferred items are written with one pipeline. */
    private function save(array $entries, int $seconds): void
    {
        foreach ($this->pool->getItems(array_keys($entries)) as $key => $item) {
            $this->pool->saveDeferred($item->set($entries[$key])->expiresAfter($seconds));
        }
        $this->pool->commit();
    }
}
