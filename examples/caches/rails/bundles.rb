# frozen_string_literal: true

require "securerandom"

# A cache of bundles in Rails' cache store: all parts of a product are read with one MGET, written with one pipeline, and expire
# together.
#
#   product/7/at      until when the bundle is fresh, how long loading it took, and whether there is such a product
#   product/7/name    a part
#   product/7/lock    who loads it now
#
# Whoever finds a fresh bundle has it. Of those who find a stale one, one loads it, and all others have the stale one meanwhile.
# Of those who find none, one loads it, and all others wait for that one.
class Bundles
  PARTS = %w[name price stock].freeze
  FRESH = 60 # seconds that it is taken as it is
  STALE = 600 # seconds after that in which it is still better than waiting
  ABSENT = 5 # seconds in which is remembered that there is none
  LOCK = 10 # longer than any load takes; after that another one may begin

  # A lock is given back only by who holds it: it may have expired, and be somebody else's.
  RELEASE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0'

  # The block gives a product's parts by their names, or nil where there is no such product.
  def initialize(store, beta: 1.0, clock: -> { Time.now.to_f }, dice: -> { rand }, &load)
    @store, @beta, @clock, @dice, @load = store, beta, clock, dice, load
  end

  def get(product)
    seen = read(product)
    return seen[:values] if seen && !due?(seen)

    token = take(product, waits: seen.nil?) or return seen[:values]
    begin
      # Another may have loaded it since it was looked for.
      now = read(product)
      return now[:values] if now && now[:fresh_until] != seen&.fetch(:fresh_until)

      refresh(product)
    ensure
      @store.redis.then { |redis| redis.eval(RELEASE, keys: ["shop:#{lock(product)}"], argv: [token]) }
    end
  end

  # All of it gone, with one request.
  def forget(product) = @store.delete_multi(names(product))

  # All of it gone in a while: sent together, commands on one bucket are one command for the server.
  def expire(product, seconds)
    @store.redis.then do |redis|
      redis.pipelined { |pipe| names(product).each { |name| pipe.expire("shop:#{name}", seconds) } }
    end
  end

  def names(product) = ["at", *PARTS].map { |part| "product/#{product}/#{part}" }

  private

  def lock(product) = "product/#{product}/lock"

  # One request, and through keyfold one HMGET.
  def read(product)
    at, *parts = names(product)
    found = @store.read_multi(at, *parts)
    return unless found.key?(at)

    fresh_until, took, exists = found[at]
    # A part alone may be gone, where the server evicts.
    return if exists && !parts.all? { |part| found.key?(part) }

    { fresh_until:, took:, values: exists ? PARTS.zip(found.values_at(*parts)).to_h : nil }
  end

  # XFetch: the nearer the end, and the longer loading takes, the likelier one request refreshes before anybody has to wait.
  def due?(seen)
    @clock.call - (seen[:took] * @beta * Math.log(@dice.call)) >= seen[:fresh_until]
  end

  # The token of a lock that is now one's own; nil where another has it, and nobody is to wait.
  def take(product, waits:)
    token = SecureRandom.uuid
    until @store.write(lock(product), token, raw: true, unless_exist: true, expires_in: LOCK)
      return unless waits

      sleep 0.01
    end
    token
  end

  def refresh(product)
    began = @clock.call
    values = @load.call(product)
    took = @clock.call - began
    at, *parts = names(product)
    if values
      entries = parts.zip(values.values_at(*PARTS)).to_h
      @store.write_multi(entries.merge(at => [@clock.call + FRESH, took, true]), expires_in: FRESH + STALE)
    else
      # That there is none is an entry too, or each request for it would ask the database.
      @store.delete_multi(parts)
      @store.write(at, [@clock.call + ABSENT, took, false], expires_in: ABSENT)
    end
    values
  end
end
