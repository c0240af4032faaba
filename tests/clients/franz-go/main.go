// A consumer of franz-go in a group of the consumer protocol (KIP-848).
//
// Argument: JSON with bootstrap, group, rack and topics. Prints what it owns after each change, one
// JSON line each. It ends with its process.
package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

type options struct {
	Bootstrap string   `json:"bootstrap"`
	Group     string   `json:"group"`
	Rack      string   `json:"rack"`
	Topics    []string `json:"topics"`
}

type owned struct {
	lock       sync.Mutex
	partitions map[string]map[int32]bool
}

// change adds or removes partitions and prints all that are owned then.
func (o *owned) change(changed map[string][]int32, owns bool) {
	o.lock.Lock()
	defer o.lock.Unlock()
	for topic, numbers := range changed {
		if o.partitions[topic] == nil {
			o.partitions[topic] = map[int32]bool{}
		}
		for _, number := range numbers {
			if owns {
				o.partitions[topic][number] = true
			} else {
				delete(o.partitions[topic], number)
			}
		}
	}
	line := [][]any{}
	for topic, numbers := range o.partitions {
		for number := range numbers {
			line = append(line, []any{topic, number})
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		panic(err)
	}
}

func main() {
	var wanted options
	if err := json.Unmarshal([]byte(os.Args[1]), &wanted); err != nil {
		panic(err)
	}
	all := &owned{partitions: map[string]map[int32]bool{}}
	callback := func(owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) { all.change(changed, owns) }
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(wanted.Bootstrap, ",")...),
		kgo.ConsumerGroup(wanted.Group),
		kgo.ConsumeTopics(wanted.Topics...),
		kgo.Rack(wanted.Rack),
		// ServerSideBalancer sends the name "uniform" for this balancer: no other can be chosen.
		kgo.Balancers(kgo.StickyBalancer()),
		kgo.ServerSideBalancer(),
		kgo.OnPartitionsAssigned(callback(true)),
		kgo.OnPartitionsRevoked(callback(false)),
		kgo.OnPartitionsLost(callback(false)),
	)
	if err != nil {
		panic(err)
	}
	for {
		client.PollFetches(context.Background())
	}
}
