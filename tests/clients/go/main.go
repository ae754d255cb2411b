// A session of go-redis with the server or proxy at KEYFOLD_ADDR; fails on the first wrong answer.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"keyfold.example/clients/expect"
)

const (
	logins  = "user:7:logins"
	session = "sess:0b6e9b34-6d1f-4a52-9c3d-2f1f6f5a7e10"
)

var ctx = context.Background()

func values(client *redis.Client) {
	expect.Must(client.Set(ctx, logins, 41, 0).Result())
	expect.Equal("INCR", expect.Must(client.Incr(ctx, logins).Result()), int64(42))
	expect.Equal("GET", expect.Must(client.Get(ctx, logins).Result()), "42")
	expect.Equal("SETNX", expect.Must(client.SetNX(ctx, logins, 1, 0).Result()), false)
	expect.Equal("INCRBYFLOAT", expect.Must(client.IncrByFloat(ctx, logins, 0.5).Result()), 42.5)
	for _, value := range []string{"", "\x00\x01\xff\r\n", strings.Repeat("v", 65), strings.Repeat("\x07", 100000)} {
		expect.Must(client.Set(ctx, session, value, 0).Result())
		expect.Equal("GET", expect.Must(client.Get(ctx, session).Result()), value)
	}
	expect.Must(client.MSet(ctx, "post:1:title", "T", "post:1:body", "B").Result())
	expect.Equal("MGET", expect.Must(client.MGet(ctx, "post:1:title", "none", "post:1:body").Result()), []any{"T", nil, "B"})
	expect.Equal("DEL", expect.Must(client.Del(ctx, "post:1:title", "post:1:body").Result()), int64(2))
	_, err := client.Get(ctx, "post:1:title").Result()
	expect.Equal("GET of nothing", err, redis.Nil)
}

func expiries(client *redis.Client) {
	expect.Must(client.Set(ctx, session, "token", 1000*time.Second).Result())
	ttl := expect.Must(client.TTL(ctx, session).Result())
	expect.Equal("TTL", ttl > 990*time.Second && ttl <= 1000*time.Second, true)
	expect.Equal("PERSIST", expect.Must(client.Persist(ctx, session).Result()), true)
	expect.Must(client.PExpire(ctx, session, time.Millisecond).Result())
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if expect.Must(client.Exists(ctx, session).Result()) == 0 {
			break
		}
	}
	expect.Equal("an expired GET", client.Get(ctx, session).Err(), redis.Nil)
}

func pipelines(client *redis.Client) {
	replies := expect.Must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range 200 {
			pipe.Set(ctx, fmt.Sprintf("user:%d:logins", number), number, 0)
		}
		for number := range 200 {
			pipe.Get(ctx, fmt.Sprintf("user:%d:logins", number))
		}
		return nil
	}))
	for number := range 200 {
		expect.Equal("GET in a pipeline", replies[200+number].(*redis.StringCmd).Val(), strconv.Itoa(number))
	}
	keys := map[string]bool{}
	scan := client.Scan(ctx, 0, "user:*:logins", 20).Iterator()
	for scan.Next(ctx) {
		keys[scan.Val()] = true
	}
	expect.Equal("SCAN", scan.Err(), nil)
	expect.Equal("SCAN", len(keys), 200)
}

func transactions(client *redis.Client) {
	expect.Must(client.Set(ctx, logins, 1, 0).Result())
	var seen *redis.StringCmd
	expect.Must(client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, logins)
		seen = pipe.Get(ctx, logins)
		pipe.Set(ctx, "plain", "x", 0)
		return nil
	}))
	expect.Equal("GET in a transaction", seen.Val(), "2")
	increment := func(interfere bool) error {
		return client.Watch(ctx, func(tx *redis.Tx) error {
			seen := expect.Must(tx.Get(ctx, logins).Int())
			if interfere {
				expect.Must(client.Set(ctx, logins, 10, 0).Result())
			}
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, logins, seen+1, 0)
				return nil
			})
			return err
		}, logins)
	}
	expect.Equal("EXEC after a change", increment(true), redis.TxFailedErr)
	expect.Equal("EXEC without one", increment(false), nil)
	expect.Equal("GET", expect.Must(client.Get(ctx, logins).Result()), "11")
}

func refusals(client *redis.Client) {
	expect.Must(client.Set(ctx, logins, "text", 0).Result())
	for _, err := range []error{client.Incr(ctx, logins).Err(), client.LPush(ctx, logins, "a").Err()} {
		var refusal redis.Error
		expect.Equal("a refusal", errors.As(err, &refusal), true)
	}
}

func pubsub(client *redis.Client) {
	subscriber := client.Subscribe(ctx, "news")
	defer subscriber.Close()
	expect.Must(subscriber.Receive(ctx))
	expect.Equal("PUBLISH", expect.Must(client.Publish(ctx, "news", "\x00hello").Result()), int64(1))
	message := expect.Must(subscriber.ReceiveMessage(ctx))
	expect.Equal("message", []string{message.Channel, message.Payload}, []string{"news", "\x00hello"})
}

func blocking(client *redis.Client) {
	pushed := make(chan error)
	go func() {
		time.Sleep(100 * time.Millisecond)
		pushed <- client.RPush(ctx, "list", "item").Err()
	}()
	expect.Equal("BLPOP", expect.Must(client.BLPop(ctx, 10*time.Second, "list").Result()), []string{"list", "item"})
	expect.Equal("RPUSH", <-pushed, nil)
}

func main() {
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: os.Getenv("KEYFOLD_ADDR"), Protocol: protocol, ReadTimeout: 20 * time.Second})
		expect.Must(client.FlushAll(ctx).Result())
		for _, part := range []func(*redis.Client){values, expiries, pipelines, transactions, refusals, pubsub, blocking} {
			part(client)
		}
		client.Close()
		fmt.Printf("go-redis %s, RESP%d: as it should be\n", redis.Version(), protocol)
	}
}
