// A session of go-redis's cluster client with the keyfolds at KEYFOLD_ADDRS; fails on the first wrong answer. The second
// keyfold, of the processes in KEYFOLD_PIDS, is killed at the end: the first has all slots then.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
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

func user(number int) string { return fmt.Sprintf("user:%d", number) }

const users = 1000

func values(client *redis.ClusterClient) {
	for number := range users {
		must(client.Set(ctx, user(number), number, 0).Result())
	}
	for number := range users {
		check("GET", must(client.Get(ctx, user(number)).Result()), strconv.Itoa(number))
	}
	check("INCR", must(client.Incr(ctx, user(41)).Result()), int64(42))
	check("DECR", must(client.Decr(ctx, user(41)).Result()), int64(41))
}

func pipelines(client *redis.ClusterClient) {
	pipe := client.Pipeline()
	for number := range users {
		pipe.Get(ctx, user(number))
	}
	for number, command := range must(pipe.Exec(ctx)) {
		check("a pipelined GET", command.(*redis.StringCmd).Val(), strconv.Itoa(number))
	}
}

func manyKeys(client *redis.ClusterClient) {
	must(client.MSet(ctx, "cart:{7}:1", "a", "cart:{7}:2", "b").Result())
	check("MGET", must(client.MGet(ctx, "cart:{7}:1", "cart:{7}:none", "cart:{7}:2").Result()), []any{"a", nil, "b"})
	check("EXISTS", must(client.Exists(ctx, "cart:{7}:1", "cart:{7}:3").Result()), int64(1))
	check("DEL", must(client.Del(ctx, "cart:{7}:1", "cart:{7}:2").Result()), int64(2))
}

func transactions(client *redis.ClusterClient) {
	pipe := client.TxPipeline()
	pipe.Set(ctx, "cart:{7}:1", 1, 0)
	pipe.Set(ctx, "plain:{7}", 5, 0)
	count := pipe.Incr(ctx, "cart:{7}:1")
	must(pipe.Exec(ctx))
	check("INCR in MULTI", count.Val(), int64(2))
	check("EVAL", must(client.Eval(ctx, "return redis.call('INCR', KEYS[1])", []string{"plain:{7}"}).Result()), int64(6))
	watched := client.Watch(ctx, func(tx *redis.Tx) error {
		read := must(tx.Get(ctx, "cart:{7}:1").Int())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, "cart:{7}:1", read+1, 0).Err()
		})
		return err
	}, "cart:{7}:1")
	check("WATCH", watched, nil)
	check("GET", must(client.Get(ctx, "cart:{7}:1").Result()), "3")
}

func walks(client *redis.ClusterClient) {
	var lock sync.Mutex
	nodes := 0
	// Each keyfold shows the keys of all.
	check("SCAN", client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		found := map[string]bool{}
		walk := node.Scan(ctx, 0, "user:*", 200).Iterator()
		for walk.Next(ctx) {
			found[walk.Val()] = true
		}
		check("the keys of a node", len(found), users)
		lock.Lock()
		defer lock.Unlock()
		nodes++
		return walk.Err()
	}), nil)
	check("nodes", nodes, 2)
}

func messages(client *redis.ClusterClient) {
	for _, listener := range []*redis.PubSub{client.Subscribe(ctx, "news{7}"), client.SSubscribe(ctx, "news{7}")} {
		must(listener.Receive(ctx))
		must(client.Publish(ctx, "news{7}", "a").Result())
		must(client.SPublish(ctx, "news{7}", "a").Result())
		check("a message", must(listener.ReceiveMessage(ctx)).Payload, "a")
		listener.Close()
	}
}

func oneIsGone(client *redis.ClusterClient) {
	pid := must(strconv.Atoi(strings.Split(os.Getenv("KEYFOLD_PIDS"), ",")[1]))
	check("kill", syscall.Kill(pid, syscall.SIGKILL), nil)
	deadline := time.Now().Add(30 * time.Second)
	for number := range users {
		for {
			value, err := client.Get(ctx, user(number)).Result()
			if err == nil {
				check("GET", value, strconv.Itoa(number))
				break
			}
			if time.Now().After(deadline) {
				must(value, err)
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
		must(client.FlushAll(ctx).Result())
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
