// A session of go-redis with the server or proxy at KEYFOLD_ADDR; fails on the first wrong answer.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	logins  = "user:7:logins"
	session = "sess:0b6e9b34-6d1f-4a52-9c3d-2f1f6f5a7e10"
)

var ctx = context.Background()

func check(what string, actual, expected any) {
	if !reflect.DeepEqual(actual, expected) {
		fmt.Fprintf(os.Stderr, "%s: got %#v, not %#v\n", what, actual, expected)
		os.Exit(1)
	}
}

// must returns the value of a command that may not fail.
func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func values(client *redis.Client) {
	must(client.Set(ctx, logins, 41, 0).Result())
	check("INCR", must(client.Incr(ctx, logins).Result()), int64(42))
	check("GET", must(client.Get(ctx, logins).Result()), "42")
	check("SETNX", must(client.SetNX(ctx, logins, 1, 0).Result()), false)
	check("INCRBYFLOAT", must(client.IncrByFloat(ctx, logins, 0.5).Result()), 42.5)
	for _, value := range []string{"", "\x00\x01\xff\r\n", strings.Repeat("v", 65), strings.Repeat("\x07", 100000)} {
		must(client.Set(ctx, session, value, 0).Result())
		check("GET", must(client.Get(ctx, session).Result()), value)
	}
	must(client.MSet(ctx, "post:1:title", "T", "post:1:body", "B").Result())
	check("MGET", must(client.MGet(ctx, "post:1:title", "none", "post:1:body").Result()), []any{"T", nil, "B"})
	check("DEL", must(client.Del(ctx, "post:1:title", "post:1:body").Result()), int64(2))
	_, err := client.Get(ctx, "post:1:title").Result()
	check("GET of nothing", err, redis.Nil)
}

func expiries(client *redis.Client) {
	must(client.Set(ctx, session, "token", 1000*time.Second).Result())
	ttl := must(client.TTL(ctx, session).Result())
	check("TTL", ttl > 990*time.Second && ttl <= 1000*time.Second, true)
	check("PERSIST", must(client.Persist(ctx, session).Result()), true)
	must(client.PExpire(ctx, session, time.Millisecond).Result())
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if must(client.Exists(ctx, session).Result()) == 0 {
			break
		}
	}
	check("an expired GET", client.Get(ctx, session).Err(), redis.Nil)
}

func pipelines(client *redis.Client) {
	replies := must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range 200 {
			pipe.Set(ctx, fmt.Sprintf("user:%d:logins", number), number, 0)
		}
		for number := range 200 {
			pipe.Get(ctx, fmt.Sprintf("user:%d:logins", number))
		}
		return nil
	}))
	for number := range 200 {
		check("GET in a pipeline", replies[200+number].(*redis.StringCmd).Val(), strconv.Itoa(number))
	}
	keys := map[string]bool{}
	scan := client.Scan(ctx, 0, "user:*:logins", 20).Iterator()
	for scan.Next(ctx) {
		keys[scan.Val()] = true
	}
	check("SCAN", scan.Err(), nil)
	check("SCAN", len(keys), 200)
}

func transactions(client *redis.Client) {
	must(client.Set(ctx, logins, 1, 0).Result())
	var seen *redis.StringCmd
	must(client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, logins)
		seen = pipe.Get(ctx, logins)
		pipe.Set(ctx, "plain", "x", 0)
		return nil
	}))
	check("GET in a transaction", seen.Val(), "2")
	increment := func(interfere bool) error {
		return client.Watch(ctx, func(tx *redis.Tx) error {
			seen := must(tx.Get(ctx, logins).Int())
			if interfere {
				must(client.Set(ctx, logins, 10, 0).Result())
			}
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, logins, seen+1, 0)
				return nil
			})
			return err
		}, logins)
	}
	check("EXEC after a change", increment(true), redis.TxFailedErr)
	check("EXEC without one", increment(false), nil)
	check("GET", must(client.Get(ctx, logins).Result()), "11")
}

func refusals(client *redis.Client) {
	must(client.Set(ctx, logins, "text", 0).Result())
	for _, err := range []error{client.Incr(ctx, logins).Err(), client.LPush(ctx, logins, "a").Err()} {
		var refusal redis.Error
		check("a refusal", errors.As(err, &refusal), true)
	}
}

func pubsub(client *redis.Client) {
	subscriber := client.Subscribe(ctx, "news")
	defer subscriber.Close()
	must(subscriber.Receive(ctx))
	check("PUBLISH", must(client.Publish(ctx, "news", "\x00hello").Result()), int64(1))
	message := must(subscriber.ReceiveMessage(ctx))
	check("message", []string{message.Channel, message.Payload}, []string{"news", "\x00hello"})
}

func blocking(client *redis.Client) {
	pushed := make(chan error)
	go func() {
		time.Sleep(100 * time.Millisecond)
		pushed <- client.RPush(ctx, "list", "item").Err()
	}()
	check("BLPOP", must(client.BLPop(ctx, 10*time.Second, "list").Result()), []string{"list", "item"})
	check("RPUSH", <-pushed, nil)
}

func main() {
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: os.Getenv("KEYFOLD_ADDR"), Protocol: protocol, ReadTimeout: 20 * time.Second})
		must(client.FlushAll(ctx).Result())
		for _, part := range []func(*redis.Client){values, expiries, pipelines, transactions, refusals, pubsub, blocking} {
			part(client)
		}
		client.Close()
		fmt.Printf("go-redis %s, RESP%d: as it should be\n", redis.Version(), protocol)
	}
}
