<?php

/**
 * A session of the bundles in Symfony's cache, and of what that has itself, with the keyfold at KEYFOLD_ADDR, which has the layout
 * beside this file; fails on the first wrong answer. Its clients are processes.
 */

declare(strict_types=1);

require 'Symfony/Component/Cache/autoload.php';
// Composer loads this file of the same package by itself; Debian's autoloader doesn't.
require_once 'Symfony/Component/Cache/Traits/ValueWrapper.php';
require __DIR__.'/Bundles.php';

use Symfony\Component\Cache\Adapter\RedisAdapter;
use Symfony\Component\Cache\Adapter\RedisTagAwareAdapter;
use Symfony\Component\Cache\Adapter\TagAwareAdapter;
use Symfony\Component\Cache\LockRegistry;
use Symfony\Contracts\Cache\ItemInterface;

// By itself Symfony leaves these locks out on a command line.
const ONE_PROCESS_COMPUTES = [LockRegistry::class, 'compute'];
set_error_handler(static fn (int $level, string $message, string $file, int $line) => throw new ErrorException($message, 0, $level, $file, $line));

const LAMP = ['name' => 'Lamp', 'price' => '12.50', 'stock' => 3];
const PROCESSES = 16;

function client(): \Redis
{
    [$host, $port] = explode(':', getenv('KEYFOLD_ADDR'));
    $client = new \Redis();
    $client->connect($host, (int) $port, 20);
    $client->setOption(\Redis::OPT_READ_TIMEOUT, 60);

    return $client;
}

function check(mixed $is, mixed $expected): void
{
    if ($is !== $expected) {
        throw new \LogicException(sprintf('%s instead of %s', json_encode($is), json_encode($expected)));
    }
}

function comesToBe(string $what, \Closure $is): void
{
    $deadline = microtime(true) + 60;
    while (!$is()) {
        if (microtime(true) > $deadline) {
            throw new \LogicException("never came to be: $what");
        }
    }
}

function where(string $key): array
{
    $command = implode(' ', array_map('escapeshellarg', [getenv('KEYFOLD'), 'where', '--json', getenv('KEYFOLD_SERVER'), $key]));
    exec($command, $said, $status);
    check($status, 0);

    return json_decode(implode("\n", $said), true);
}

/** What the server behind was asked to do meanwhile, of these commands. */
function serverCalls(\Redis $client, array $names, \Closure $work): array
{
    $calls = static function () use ($client, $names): array {
        $told = $client->info('commandstats');

        return array_map(
            static fn (string $name): int => preg_match('/calls=(\d+)/', $told["cmdstat_$name"] ?? '', $found) ? (int) $found[1] : 0,
            $names,
        );
    };
    $before = $calls();
    $work();

    return array_map(static fn (int $now, int $was): int => $now - $was, $calls(), $before);
}

/** What all processes get, of which none begins before all are there. */
function atOnce(\Redis $client, int $processes, \Closure $work): array
{
    $client->del('come', 'go', 'answers');
    for ($number = 0; $number < $processes; ++$number) {
        if (0 === pcntl_fork()) {
            $own = client();
            $own->incr('come');
            $own->blPop('go', 60);
            try {
                $answer = $work($own);
            } catch (\Throwable $error) {
                $answer = (string) $error;
            }
            $own->rPush('answers', serialize($answer));
            exit(0);
        }
    }
    comesToBe('all processes', static fn (): bool => $processes === (int) $client->get('come'));
    $client->rPush('go', ...array_fill(0, $processes, 1));
    while ($processes-- > 0) {
        pcntl_wait($status);
    }

    return array_map('unserialize', $client->lRange('answers', 0, -1));
}

/** What is loaded, and how often, is the same for all processes: it lies beside the cache, in keys of no namespace. */
function bundles(\Redis $client, float $ahead = 0, float $dice = 1.0): Bundles
{
    return new Bundles(
        new RedisAdapter($client, 'shop'),
        $client,
        static function (int $product) use ($client): ?array {
            $client->incr('loads');
            if ($client->exists('held')) {
                $client->blPop('release', 60);
            }

            return json_decode($client->get("database:$product") ?: 'null', true);
        },
        clock: static fn (): float => microtime(true) + $ahead,
        dice: static fn (): float => $dice,
    );
}

/** One load is held back while all others ask; it gives what comes of both. */
function whileOneLoads(\Redis $client, \Closure $work): array
{
    $client->del('loads', 'release', 'first');
    $client->set('held', 1);
    if (0 === pcntl_fork()) {
        $own = client();
        $own->rPush('first', serialize($work($own)));
        exit(0);
    }
    comesToBe('a load', static fn (): bool => '1' === $client->get('loads'));
    $others = atOnce($client, PROCESSES, $work);
    $client->del('held');
    $client->rPush('release', 1);
    pcntl_wait($status);

    return [unserialize($client->lPop('first')), $others];
}

function manyRequestsAreOneLoad(\Redis $client): void
{
    check(atOnce($client, PROCESSES, static fn (\Redis $own) => bundles($own)->get(7)), array_fill(0, PROCESSES, LAMP));
    check($client->get('loads'), '1');
    check($client->exists('shop:product.7.lock'), 0);
}

function aBundleIsOneBucketAndOneRequest(\Redis $client): void
{
    $told = array_map(static fn (string $key): array => where("shop:$key"), bundles($client)->keys(7));
    check(array_unique(array_column($told, "bucket's encoding")), ['listpack']);
    check(count(array_unique(array_column($told, 'physical'))), 1);
    check(serverCalls($client, ['hmget', 'evalsha', 'eval'], static fn () => check(bundles($client)->get(7), LAMP)), [1, 0, 0]);
    // Written with one pipeline, which is one HSET.
    $pool = new RedisAdapter($client, 'shop');
    foreach ($pool->getItems(['product.9.name', 'product.9.price']) as $item) {
        $pool->saveDeferred($item->set('chair')->expiresAfter(100));
    }
    check(serverCalls($client, ['hset', 'hmget', 'evalsha'], static fn () => check($pool->commit(), true)), [1, 0, 0]);
}

function aStaleBundleIsAnsweredAndOneLoadsIt(\Redis $client): void
{
    $dearer = ['price' => '13.00'] + LAMP;
    $client->set('database:7', json_encode($dearer));
    $late = static fn (\Redis $own) => bundles($own, ahead: Bundles::FRESH)->get(7);
    [$first, $others] = whileOneLoads($client, $late);
    check($first['price'], '13.00');
    check($others, array_fill(0, PROCESSES, LAMP));
    check(array_column(atOnce($client, PROCESSES, $late), 'price'), array_fill(0, PROCESSES, '13.00'));
    check($client->get('loads'), '1');
}

function aRefreshComesEarlyByChanceAndOnce(\Redis $client): void
{
    // It took a tenth of a second, and stays fresh for 10: -ln(0.5) tenths are far from the end, -ln(1e-60) beyond it.
    $pool = new RedisAdapter($client, 'shop');
    $pool->save($pool->getItem('product.7.at')->set([microtime(true) + 10, 0.1, true])->expiresAfter(100));
    $client->del('loads');
    atOnce($client, PROCESSES, static fn (\Redis $own) => bundles($own, dice: 0.5)->get(7));
    check($client->get('loads'), false);
    [$first, $others] = whileOneLoads($client, static fn (\Redis $own) => bundles($own, dice: 1e-60)->get(7));
    check([$first['name'], array_unique(array_column($others, 'name'))], ['Lamp', ['Lamp']]);
    check($client->get('loads'), '1');
}

function whatIsNotThereIsRemembered(\Redis $client): void
{
    $client->del('loads');
    check(atOnce($client, PROCESSES, static fn (\Redis $own) => bundles($own)->get(8)), array_fill(0, PROCESSES, null));
    check($client->get('loads'), '1');
    check($client->ttl('shop:product.8.at') <= Bundles::ABSENT, true);
    // What comes to be there is told at once by who makes it.
    $client->set('database:8', json_encode(LAMP));
    bundles($client)->forget(8);
    check(bundles($client)->get(8), LAMP);
}

function theWholeExpiresAndIsForgotten(\Redis $client): void
{
    $keys = array_map(static fn (string $key): string => "shop:$key", bundles($client)->keys(7));
    bundles($client)->expire(7, 100);
    check(serverCalls($client, ['evalsha', 'eval'], static fn () => bundles($client)->expire(7, 50)), [1, 0]);
    foreach ($keys as $key) {
        check($client->ttl($key) > 0 && $client->ttl($key) <= 50, true);
    }
    bundles($client)->expire(7, 1);
    comesToBe('no bundle', static fn (): bool => 0 === $client->exists($keys));
    bundles($client)->get(7);
    check(serverCalls($client, ['hmget', 'hdel', 'exec'], static fn () => bundles($client)->forget(7)), [1, 1, 1]);
    // Who held the lock and failed has given it back.
    try {
        (new Bundles(new RedisAdapter($client, 'shop'), $client, static fn () => throw new \DomainException()))->get(7);
        throw new \LogicException('no error');
    } catch (\DomainException) {
        check($client->exists('shop:product.7.lock'), 0);
    }
}

/** What the pool has by itself: `get` computes in one process of a machine, and by chance before the end. */
function getComputesOnceAndEarly(\Redis $client): void
{
    $get = static function (\Redis $own, float $beta): string {
        $pool = new RedisAdapter($own, 'shop');
        $pool->setCallbackWrapper(\Closure::fromCallable(ONE_PROCESS_COMPUTES));

        return $pool->get('product.10.page', static function (ItemInterface $item) use ($own): string {
            $item->expiresAfter(100);
            usleep(20_000);

            return 'page '.$own->incr('computed');
        }, $beta);
    };
    check(array_unique(atOnce($client, PROCESSES, static fn (\Redis $own) => $get($own, 1.0))), ['page 1']);
    // It took more than 20 ms of a life of 100 s: a beta of a million makes each want a new one, and one at a time computes it.
    check($get($client, 0.0), 'page 1');
    check($get($client, 1e6), 'page 2');
    check($get($client, 0.0), 'page 2');
    check(where('shop:product.10.page')["bucket's encoding"], 'listpack');
    // null is an entry as well.
    $pool = new RedisAdapter($client, 'shop');
    check($pool->get('product.10.none', static fn () => null), null);
    check($pool->get('product.10.none', static fn () => 'some'), null);
}

function tagsByVersionsNotByScripts(\Redis $client): void
{
    $pool = new TagAwareAdapter(new RedisAdapter($client, 'shop'));
    foreach (['name', 'price'] as $part) {
        $pool->saveDeferred($pool->getItem("product.11.$part")->set('chair')->tag('product-11'));
    }
    $pool->commit();
    check($pool->getItem('product.11.name')->get(), 'chair');
    check($pool->invalidateTags(['product-11']), true);
    check([$pool->getItem('product.11.name')->isHit(), $pool->getItem('product.11.price')->isHit()], [false, false]);

    // RedisTagAwareAdapter deletes keys that its script finds in a set and doesn't declare: on folded ones it does nothing.
    $pool = new RedisTagAwareAdapter($client, 'shop');
    $pool->save($pool->getItem('product.12.name')->set('chair')->tag('product-12'));
    $pool->save($pool->getItem('plain')->set('chair')->tag('product-12'));
    check($pool->invalidateTags(['product-12']), true);
    check([$pool->getItem('product.12.name')->isHit(), $pool->getItem('plain')->isHit()], [true, false]);
}

$client = client();
$client->flushAll();
$client->set('database:7', json_encode(LAMP));
manyRequestsAreOneLoad($client);
aBundleIsOneBucketAndOneRequest($client);
aStaleBundleIsAnsweredAndOneLoadsIt($client);
aRefreshComesEarlyByChanceAndOnce($client);
whatIsNotThereIsRemembered($client);
theWholeExpiresAndIsForgotten($client);
getComputesOnceAndEarly($client);
tagsByVersionsNotByScripts($client);
printf("Symfony's cache with phpredis %s, PHP %s: as it should be\n", phpversion('redis'), \PHP_VERSION);
