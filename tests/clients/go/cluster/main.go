// A session of go-redis's cluster client with the keyfolds at KEYFOLD_ADDRS; fails on the first wrong answer. The second
// keyfold, of the processes in KEYFOLD_PIDS, is killed at the end: the first has all slots then.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"keyfold.example/clients/expect"
)

var ctx = context.Background()

func user(number int) string { return fmt.Sprintf("user:%d", number) }

const users = 1000

func values(client *redis.ClusterClient) {
	for number := range users {
		expect.Must(client.Set(ctx, user(number), number, 0).Result())
	}
	for number := range users {
		expect.Equal("GET", expect.Must(client.Get(ctx, user(number)).Result()), strconv.Itoa(number))
	}
	expect.Equal("INCR", expect.Must(client.Incr(ctx, user(41)).Result()), int64(42))
	expect.Equal("DECR", expect.Must(client.Decr(ctx, user(41)).Result()), int64(41))
}

func pipelines(client *redis.ClusterClient) {
	pipe := client.Pipeline()
	for number := range users {
		pipe.Get(ctx, user(number))
	}
	for number, command := range expect.Must(pipe.Exec(ctx)) {
		expect.Equal("a pipelined GET", command.(*redis.StringCmd).Val(), strconv.Itoa(number))
	}
}

func manyKeys(client *redis.ClusterClient) {
	expect.Must(client.MSet(ctx, "cart:{7}:1", "a", "cart:{7}:2", "b").Result())
	expect.Equal("MGET", expect.Must(client.MGet(ctx, "cart:{7}:1", "cart:{7}:none", "cart:{7}:2").Result()), []any{"a", nil, "b"})
	expect.Equal("EXISTS", expect.Must(client.Exists(ctx, "cart:{7}:1", "cart:{7}:3").Result()), int64(1))
	expect.Equal("DEL", expect.Must(client.Del(ctx, "cart:{7}:1", "cart:{7}:2").Result()), int64(2))
}

func transactions(client *redis.ClusterClient) {
	pipe := client.TxPipeline()
	pipe.Set(ctx, "cart:{7}:1", 1, 0)
	pipe.Set(ctx, "plain:{7}", 5, 0)
	count := pipe.Incr(ctx, "cart:{7}:1")
	expect.Must(pipe.Exec(ctx))
	expect.Equal("INCR in MULTI", count.Val(), int64(2))
	expect.Equal("EVAL", expect.Must(client.Eval(ctx, "return redis.call('INCR', KEYS[1])", []string{"plain:{7}"}).Result()), int64(6))
	watched := client.Watch(ctx, func(tx *redis.Tx) error {
		read := expect.Must(tx.Get(ctx, "cart:{7}:1").Int())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, "cart:{7}:1", read+1, 0).Err()
		})
		return err
	}, "cart:{7}:1")
	expect.Equal("WATCH", watched, nil)
	expect.Equal("GET", expect.Must(client.Get(ctx, "cart:{7}:1").Result()), "3")
}

func walks(client *redis.ClusterClient) {
	var lock sync.Mutex
	nodes := 0
	// Each keyfold shows the keys of all.
	expect.Equal("SCAN", client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		found := map[string]bool{}
		walk := node.Scan(ctx, 0, "user:*", 200).Iterator()
		for walk.Next(ctx) {
			found[walk.Val()] = true
		}
		expect.Equal("the keys of a node", len(found), users)
		lock.Lock()
		defer lock.Unlock()
		nodes++
		return walk.Err()
	}), nil)
	expect.Equal("nodes", nodes, 2)
}

func messages(client *redis.ClusterClient) {
	for _, listener := range []*redis.PubSub{client.Subscribe(ctx, "news{7}"), client.SSubscribe(ctx, "news{7}")} {
		expect.Must(listener.Receive(ctx))
		expect.Must(client.Publish(ctx, "news{7}", "a").Result())
		expect.Must(client.SPublish(ctx, "news{7}", "a").Result())
		expect.Equal("a message", expect.Must(listener.ReceiveMessage(ctx)).Payload, "a")
		listener.Close()
	}
}

func oneIsGone(client *redis.ClusterClient) {
	pid := expect.Must(strconv.Atoi(strings.Split(os.Getenv("KEYFOLD_PIDS"), ",")[1]))
	expect.Equal("kill", syscall.Kill(pid, syscall.SIGKILL), nil)
	deadline := time.Now().Add(30 * time.Second)
	for number := range users {
		for {
			value, err := client.Get(ctx, user(number)).Result()
			if err == nil {
				expect.Equal("GET", value, strconv.Itoa(number))
				break
			}
			if time.Now().After(deadline) {
				expect.Must(value, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func main() {
	for _, protocol := range []int{2, 3} {
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs:       strings.Split(os.Getenv("KEYFOLD_ADDRS"), ","),
			Protocol:    protocol,
			ReadTimeout: 20 * time.Second,
			// A node that is lost doesn't have it ask for the map; by default it asks once a minute.
			ClusterStateReloadInterval: time.Second,
		})
		expect.Must(client.FlushAll(ctx).Result())
		for _, part := range []func(*redis.ClusterClient){values, pipelines, manyKeys, transactions, walks, messages} {
			part(client)
		}
		if protocol == 3 {
			oneIsGone(client)
		}
		client.Close()
		fmt.Printf("go-redis, cluster, RESP%d: as it should be\n", protocol)
	}
}
