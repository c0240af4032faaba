// How long franz-go's balancers take on a problem of benchmarks/peers (its README has the form).
//
// Arguments: the problem, where to write the plan, fewest and most runs, seconds after which no
// more than the fewest are made, seconds after which not even these. Prints one JSON line: nanos of each balance, nanos of reading
// what the members sent (a ConsumerBalancer is made of wire bytes), and partitions given. With "wire" in the problem, nanos
// are those from the bytes of all subscriptions to the bytes of all assignments.
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type member struct {
	ID           string  `json:"id"`
	Subscription int     `json:"subscription"`
	Generation   int32   `json:"generation"`
	Owned        []int32 `json:"owned"` // topic, partition, topic, partition, ...
}

type problem struct {
	Strategy      string              `json:"strategy"`
	Topics        [][]json.RawMessage `json:"topics"` // name, count, id
	Subscriptions [][]int             `json:"subscriptions"`
	Members       []member            `json:"members"`
	Wire          bool                `json:"wire"`
}

type answer struct {
	Nanos        []int64 `json:"nanos"`
	ReadingNanos []int64 `json:"reading_nanos"`
	Given        int     `json:"given"`
	Version      string  `json:"version"`
	Peak         *int    `json:"peak"`
}

// peak is the memory at most resident so far in KiB, nil where there is no /proc.
func peak() *int {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	for _, line := range strings.Split(string(raw), "\n") {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return &kib
		}
	}
	return nil
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func balancer(strategy string) kgo.GroupBalancer {
	switch strategy {
	case "range":
		return kgo.RangeBalancer()
	case "roundrobin":
		return kgo.RoundRobinBalancer()
	case "sticky":
		return kgo.StickyBalancer()
	case "cooperative-sticky":
		return kgo.CooperativeStickyBalancer()
	}
	must(fmt.Errorf("no such balancer: %s", strategy))
	return nil
}

// sent is what the members send when they join, made by the balancer itself.
func sent(of problem, names []string, by kgo.GroupBalancer) []kmsg.JoinGroupResponseMember {
	out := make([]kmsg.JoinGroupResponseMember, len(of.Members))
	for i, one := range of.Members {
		topics := make([]string, 0, len(of.Subscriptions[one.Subscription]))
		for _, topic := range of.Subscriptions[one.Subscription] {
			topics = append(topics, names[topic])
		}
		owned := map[string][]int32{}
		for at := 0; at+1 < len(one.Owned); at += 2 {
			name := names[one.Owned[at]]
			owned[name] = append(owned[name], one.Owned[at+1])
		}
		out[i] = kmsg.NewJoinGroupResponseMember()
		out[i].MemberID = one.ID
		out[i].ProtocolMetadata = by.JoinGroupMetadata(topics, owned, one.Generation)
	}
	return out
}

func main() {
	raw, err := os.ReadFile(os.Args[1])
	must(err)
	var of problem
	must(json.Unmarshal(raw, &of))
	fewest, err := strconv.Atoi(os.Args[3])
	must(err)
	most, err := strconv.Atoi(os.Args[4])
	must(err)
	enough, err := strconv.ParseFloat(os.Args[5], 64)
	must(err)
	atMost, err := strconv.ParseFloat(os.Args[6], 64)
	must(err)

	names := make([]string, len(of.Topics))
	counts := make(map[string]int32, len(of.Topics))
	first := make(map[string]int, len(of.Topics))
	total := 0
	for i, topic := range of.Topics {
		var count int32
		must(json.Unmarshal(topic[0], &names[i]))
		must(json.Unmarshal(topic[1], &count))
		counts[names[i]] = count
		first[names[i]] = total
		total += int(count)
	}
	by := balancer(of.Strategy)
	members := sent(of, names, by)
	number := make(map[string]int32, len(members))
	for i, one := range members {
		number[one.MemberID] = int32(i)
	}

	said := answer{Version: runtime.Version()}
	var plan map[string]map[string][]int32
	begin := time.Now()
	within := func(run int) bool {
		limit := enough
		if run < fewest {
			limit = atMost
		}
		return run < most && time.Since(begin).Seconds() < limit
	}
	for run := 0; within(run); run++ {
		// A balancer sorts its members in place: each run gets its own slice of them.
		joined := append([]kmsg.JoinGroupResponseMember(nil), members...)
		plan = nil
		start := time.Now()
		read, _, err := by.MemberBalancer(joined)
		must(err)
		said.ReadingNanos = append(said.ReadingNanos, time.Since(start).Nanoseconds())
		start = time.Now()
		made, err := read.(interface {
			BalanceOrError(map[string]int32) (kgo.IntoSyncAssignment, error)
		}).BalanceOrError(counts)
		nanos := time.Since(start).Nanoseconds()
		must(err)
		if of.Wire {
			made.IntoSyncAssignment()
			nanos = time.Since(start).Nanoseconds() + said.ReadingNanos[run]
		}
		said.Nanos = append(said.Nanos, nanos)
		plan = made.(*kgo.BalancePlan).AsMemberIDMap()
	}

	owner := make([]int32, total)
	for i := range owner {
		owner[i] = -1
	}
	for id, topics := range plan {
		for topic, partitions := range topics {
			for _, p := range partitions {
				owner[first[topic]+int(p)] = number[id]
				said.Given++
			}
		}
	}
	file, err := os.Create(os.Args[2])
	must(err)
	must(binary.Write(file, binary.LittleEndian, owner))
	must(file.Close())
	said.Peak = peak()
	must(json.NewEncoder(os.Stdout).Encode(said))
}
