# frozen_string_literal: true

# A session of the bundles in Rails' cache store with the keyfold at KEYFOLD_ADDR, which has the layout beside this file; fails
# on the first wrong answer.

require "json"
require "open3"
require "active_support"
require "active_support/cache"
require "active_support/cache/redis_cache_store"
require "active_support/core_ext/numeric/time"
require "active_support/testing/time_helpers"
require_relative "bundles"

ActiveSupport::Cache.format_version = 7.1
STORE = ActiveSupport::Cache::RedisCacheStore.new(
  url: "redis://#{ENV.fetch("KEYFOLD_ADDR")}/0", namespace: "shop", pool: { size: 8, timeout: 60 }, compress: false,
  # The store takes an error for a miss; here it is a failure.
  error_handler: ->(exception:, **) { raise exception }
)
LAMP = { "name" => "Lamp", "price" => "12.50", "stock" => 3 }.freeze
THREADS = 24
include ActiveSupport::Testing::TimeHelpers

def check(is, expected)
  raise "#{is.inspect} instead of #{expected.inspect}" unless is == expected
end

# What the caches ask: products by id, how often each was loaded, and a gate that holds loads back.
class Database
  attr_reader :loads, :products
  attr_accessor :gate

  def initialize
    @products, @loads, @counting, @gate = { 7 => LAMP }, 0, Mutex.new, nil
  end

  def load(product)
    @counting.synchronize { @loads += 1 }
    gate&.pop
    products[product]
  end
end

def redis(&) = STORE.redis.then(&)
def shelf(database, **options) = Bundles.new(STORE, **options) { |product| database.load(product) }

def where(key)
  said, status = Open3.capture2(ENV.fetch("KEYFOLD"), "where", "--json", ENV.fetch("KEYFOLD_SERVER"), key)
  check(status.success?, true)
  JSON.parse(said)
end

# What the server behind was asked to do meanwhile, of these commands.
def server_calls(*names)
  calls = lambda do
    told = redis { |client| client.info("commandstats") }
    names.map { |name| told.fetch(name, {}).fetch("calls", 0).to_i }
  end
  before = calls.call
  yield
  calls.call.zip(before).map { |now, was| now - was }
end

# What all threads get, of which none begins before all are there.
def at_once
  come, gate = Queue.new, Queue.new
  threads = Array.new(THREADS) { Thread.new { come << true; gate.pop; yield } }
  THREADS.times { come.pop }
  gate.close
  threads.map(&:value)
end

def comes_to_be(what)
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
  until yield
    raise "never came to be: #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
  end
end

# One load is held back while all others ask; it gives what comes of both.
def while_one_loads(database, work)
  database.gate = Queue.new
  before = database.loads
  first = Thread.new(&work)
  comes_to_be("a load") { database.loads == before + 1 }
  others = at_once(&work)
  database.gate.close
  database.gate = nil
  [first.value, others]
end

def many_requests_are_one_load
  database = Database.new
  check(at_once { shelf(database).get(7) }, [LAMP] * THREADS)
  check(database.loads, 1)
  check(redis { |client| client.exists("shop:product/7/lock") }, 0)
end

def a_bundle_is_one_bucket_and_one_request
  names = shelf(nil).names(7).map { |name| "shop:#{name}" }
  told = names.map { |name| where(name) }
  check(told.map { |one| one["bucket's encoding"] }.uniq, ["listpack"])
  check(told.map { |one| one["physical"] }.uniq.size, 1)
  check(server_calls("hmget", "evalsha", "eval") { check(shelf(nil).get(7), LAMP) }, [1, 0, 0])
  # Written with one pipeline, which is one HSET.
  entries = { "product/9/name" => "Chair", "product/9/price" => "80" }
  check(server_calls("hset", "hmget", "evalsha") { STORE.write_multi(entries, expires_in: 100) }, [1, 0, 0])
end

def a_stale_bundle_is_answered_and_one_loads_it
  database = Database.new
  database.products[7] = dearer = LAMP.merge("price" => "13.00")
  late = shelf(database, clock: -> { Time.now.to_f + Bundles::FRESH })
  check(while_one_loads(database, -> { late.get(7) }), [dearer, [LAMP] * THREADS])
  check(at_once { late.get(7) }, [dearer] * THREADS)
  check(database.loads, 1)
end

def a_refresh_comes_early_by_chance_and_once
  # It took a tenth of a second, and stays fresh for 10: -ln(0.5) tenths are far from the end, -ln(1e-60) beyond it.
  STORE.write("product/7/at", [Time.now.to_f + 10, 0.1, true], expires_in: 100)
  database = Database.new
  at_once { shelf(database, dice: -> { 0.5 }).get(7) }
  check(database.loads, 0)
  first, others = while_one_loads(database, -> { shelf(database, dice: -> { 1e-60 }).get(7) })
  check([first, others.map { |product| product["name"] }], [LAMP, ["Lamp"] * THREADS])
  check(database.loads, 1)
end

def what_is_not_there_is_remembered
  database = Database.new
  check(at_once { shelf(database).get(8) }, [nil] * THREADS)
  check(database.loads, 1)
  check((1..Bundles::ABSENT).cover?(redis { |client| client.ttl("shop:product/8/at") }), true)
  # What comes to be there is told at once by who makes it.
  database.products[8] = LAMP
  shelf(database).forget(8)
  check(shelf(database).get(8), LAMP)
end

def the_whole_expires_and_is_forgotten
  database = Database.new
  names = shelf(database).names(7).map { |name| "shop:#{name}" }
  shelf(database).expire(7, 100)
  check(server_calls("evalsha", "eval") { shelf(database).expire(7, 50) }, [1, 0])
  check(names.all? { |name| (1..50).cover?(redis { |client| client.ttl(name) }) }, true)
  shelf(database).expire(7, 1)
  comes_to_be("no bundle") { redis { |client| client.exists(*names) }.zero? }
  shelf(database).get(7)
  check(server_calls("hmget", "hdel", "exec") { check(shelf(database).forget(7), 4) }, [1, 1, 1])
  # Who held the lock and failed has given it back.
  begin
    Bundles.new(STORE) { raise KeyError }.get(7)
    raise "no error"
  rescue KeyError
    check(redis { |client| client.exists("shop:product/7/lock") }, 0)
  end
end

# What the store has by itself.
def fetch_multi_reads_once_and_makes_what_is_missing
  names = %w[name price stock].map { |part| "product/10/#{part}" }
  made = []
  fetch = -> { STORE.fetch_multi(*names, expires_in: 1.hour) { |name| made << name; "made of #{name}" } }
  check(server_calls("hmget", "hset", "evalsha") { fetch.call }, [1, 1, 0])
  check(server_calls("hmget", "hset", "evalsha") { check(fetch.call["product/10/price"], "made of product/10/price") }, [1, 0, 0])
  check(made, names)
  # nil is an entry, unless that is skipped.
  STORE.fetch("product/10/note") { nil }
  STORE.fetch("product/10/size", skip_nil: true) { nil }
  check([STORE.exist?("product/10/note"), STORE.exist?("product/10/size")], [true, false])
  check(STORE.increment("product/10/views", 2, expires_in: 1.hour), 2)
end

# `race_condition_ttl` of fetch: the first who finds an expired entry makes it anew, and puts it back for the others meanwhile.
def race_condition_ttl_gives_the_stale_one_to_all_but_one
  database = Database.new
  database.products.merge!("old" => "old", "new" => "new")
  fetch = ->(which) { STORE.fetch("product/11/name", expires_in: 60, race_condition_ttl: 10) { database.load(which) } }
  check(fetch.call("old"), "old")
  travel 61.seconds
  check(while_one_loads(database, -> { fetch.call("new") }), ["new", ["old"] * THREADS])
  check(database.loads, 2)
  travel_back
end

redis(&:flushall)
many_requests_are_one_load
a_bundle_is_one_bucket_and_one_request
a_stale_bundle_is_answered_and_one_loads_it
a_refresh_comes_early_by_chance_and_once
what_is_not_there_is_remembered
the_whole_expires_and_is_forgotten
fetch_multi_reads_once_and_makes_what_is_missing
race_condition_ttl_gives_the_stale_one_to_all_but_one
puts "Rails #{ActiveSupport.version}, its cache store with redis-rb #{Redis::VERSION}: as it should be"
