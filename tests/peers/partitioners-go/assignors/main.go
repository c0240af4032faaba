// Sarama's and franz-go's assignors, asked by JSON lines: the oracle of tests/parity/test_go_dialects.py.
//
// In: {"strategy": "sarama:range", "topics": {name: partitions}, "members": [{"id", "instance", "topics"}]}.
// Out: {"assignment": {member: {topic: [partition, ...]}}}, or {"error": message}.
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"sort"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type member struct {
	ID       string   `json:"id"`
	Instance *string  `json:"instance"`
	Topics   []string `json:"topics"`
}

type problem struct {
	Strategy string           `json:"strategy"`
	Topics   map[string]int32 `json:"topics"`
	Members  []member         `json:"members"`
}

type answer struct {
	Assignment map[string]map[string][]int32 `json:"assignment,omitempty"`
	Error      string                        `json:"error,omitempty"`
}

func askSarama(strategy sarama.BalanceStrategy, p problem) answer {
	members := make(map[string]sarama.ConsumerGroupMemberMetadata)
	for _, one := range p.Members {
		members[one.ID] = sarama.ConsumerGroupMemberMetadata{Topics: one.Topics}
	}
	topics := make(map[string][]int32)
	for topic, count := range p.Topics {
		for number := int32(0); number < count; number++ {
			topics[topic] = append(topics[topic], number)
		}
	}
	plan, err := strategy.Plan(members, topics)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Assignment: plan}
}

// The client sorts the members before it asks the balancer (balanceGroup, joinMemberLess).
func less(l, r kmsg.JoinGroupResponseMember) bool {
	switch {
	case l.InstanceID != nil && r.InstanceID != nil:
		return *l.InstanceID < *r.InstanceID
	case l.InstanceID != nil || r.InstanceID != nil:
		return l.InstanceID != nil
	}
	return l.MemberID < r.MemberID
}

func askFranzGo(balancer kgo.GroupBalancer, p problem) answer {
	var members []kmsg.JoinGroupResponseMember
	for _, one := range p.Members {
		metadata := kmsg.NewConsumerMemberMetadata()
		metadata.Version = 3
		metadata.Topics = one.Topics
		made := kmsg.NewJoinGroupResponseMember()
		made.MemberID, made.InstanceID = one.ID, one.Instance
		made.ProtocolMetadata = metadata.AppendTo(nil)
		members = append(members, made)
	}
	sort.SliceStable(members, func(i, j int) bool { return less(members[i], members[j]) })
	prepared, _, err := balancer.MemberBalancer(members)
	if err != nil {
		return answer{Error: err.Error()}
	}
	plan, err := prepared.(kgo.GroupMemberBalancerOrError).BalanceOrError(p.Topics)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Assignment: plan.(*kgo.BalancePlan).AsMemberIDMap()}
}

func ask(p problem) answer {
	switch p.Strategy {
	case "sarama:range":
		return askSarama(sarama.NewBalanceStrategyRange(), p)
	case "sarama:roundrobin":
		return askSarama(sarama.NewBalanceStrategyRoundRobin(), p)
	case "franz-go:range":
		return askFranzGo(kgo.RangeBalancer(), p)
	case "franz-go:roundrobin":
		return askFranzGo(kgo.RoundRobinBalancer(), p)
	}
	return answer{Error: "no such strategy"}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var p problem
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			panic(err)
		}
		if err := out.Encode(ask(p)); err != nil {
			panic(err)
		}
	}
}
