// Sarama's and franz-go's partitioners, asked by JSON lines: the oracle of tests/parity.
//
// In: {"who", "count", "keys": [hex or null], "values": [bytes of each value], "numbers": [...],
// "buffered": [...], "batches": [positions before which a new batch begins], "explicit": [...]}.
// Out: partitions. What a partitioner draws comes from "numbers": its source of randomness is
// replaced, because no constructor takes one.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand"
	"os"
	"reflect"
	"unsafe"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

type request struct {
	Who      string    `json:"who"`
	Count    int       `json:"count"`
	Keys     []*string `json:"keys"`
	Values   []int     `json:"values"`
	Numbers  []int32   `json:"numbers"`
	Float    bool      `json:"float"`
	Buffered []int64   `json:"buffered"`
	Batches  []int     `json:"batches"`
	Explicit []int32   `json:"explicit"`
	Limit    int       `json:"limit"`
}

// given hands out numbers: 31 bits where Int31 looks, or 53 bits of two for Float64.
type given struct {
	numbers []int32
	on      int
	float   bool
}

func (g *given) Seed(int64) {}

func (g *given) next() int64 {
	n := g.numbers[g.on]
	g.on++
	return int64(n)
}

func (g *given) Int63() int64 {
	if g.float {
		high := g.next() & 0x1fffff
		return (high<<32 | g.next()&0xffffffff) << 10
	}
	return (g.next() & 0x7fffffff) << 32
}

// feed puts a source into the first field of type *rand.Rand, however deep.
func feed(v reflect.Value, rng *rand.Rand) bool {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return false
	}
	for i := 0; i < v.NumField(); i++ {
		field := v.Field(i)
		if field.Type() == reflect.TypeOf(rng) {
			*(**rand.Rand)(unsafe.Pointer(field.UnsafeAddr())) = rng
			return true
		}
		if field.CanAddr() && feed(field, rng) {
			return true
		}
	}
	return false
}

func fnv32a(b []byte) uint32 {
	h := fnv.New32a()
	h.Write(b)
	return h.Sum32()
}

func saramaOf(who string) sarama.PartitionerConstructor {
	return map[string]sarama.PartitionerConstructor{
		"sarama:default":    sarama.NewConfig().Producer.Partitioner,
		"sarama:hash":       sarama.NewHashPartitioner,
		"sarama:custom":     sarama.NewCustomHashPartitioner(fnv.New32a),
		"sarama:reference":  sarama.NewReferenceHashPartitioner,
		"sarama:abs-first":  sarama.NewCustomPartitioner(sarama.WithAbsFirst()),
		"sarama:crc32":      sarama.NewConsistentCRCHashPartitioner,
		"sarama:murmur2":    sarama.NewMurmur2Partitioner,
		"sarama:random":     sarama.NewRandomPartitioner,
		"sarama:roundrobin": sarama.NewRoundRobinPartitioner,
		"sarama:manual":     sarama.NewManualPartitioner,
	}[who]
}

func franzOf(who string, limit int) kgo.Partitioner {
	switch who {
	case "franz-go:default":
		client, err := kgo.NewClient()
		if err != nil {
			panic(err)
		}
		defer client.Close()
		return client.OptValue(kgo.RecordPartitioner).(kgo.Partitioner)
	case "franz-go:uniform-bytes":
		return kgo.UniformBytesPartitioner(limit, true, true, nil)
	case "franz-go:uniform-bytes:plain":
		return kgo.UniformBytesPartitioner(limit, false, true, nil)
	case "franz-go:sticky-key":
		return kgo.StickyKeyPartitioner(nil)
	case "franz-go:sarama-compat":
		return kgo.StickyKeyPartitioner(kgo.SaramaCompatHasher(fnv32a))
	case "franz-go:sticky":
		return kgo.StickyPartitioner()
	case "franz-go:roundrobin":
		return kgo.RoundRobinPartitioner()
	case "franz-go:manual":
		return kgo.ManualPartitioner()
	}
	return nil
}

type backup struct {
	buffered []int64
}

func (b *backup) Next() (int, int64) {
	last := len(b.buffered) - 1
	n := b.buffered[last]
	b.buffered = b.buffered[:last]
	return last, n
}

func (b *backup) Rem() int { return len(b.buffered) }

func key(r *request, i int) []byte {
	if r.Keys[i] == nil {
		return nil
	}
	b, err := hex.DecodeString(*r.Keys[i])
	if err != nil {
		panic(err)
	}
	if b == nil {
		b = []byte{}
	}
	return b
}

func bySarama(r *request, made sarama.PartitionerConstructor, rng *rand.Rand) []int {
	p := made("t")
	feed(reflect.ValueOf(p), rng)
	out := make([]int, len(r.Keys))
	for i := range r.Keys {
		m := &sarama.ProducerMessage{Topic: "t"}
		if k := key(r, i); k != nil {
			m.Key = sarama.ByteEncoder(k)
		}
		if r.Explicit != nil {
			m.Partition = r.Explicit[i]
		}
		n, err := p.Partition(m, int32(r.Count))
		if err != nil {
			panic(err)
		}
		out[i] = int(n)
	}
	return out
}

func byFranz(r *request, made kgo.Partitioner, rng *rand.Rand) []int {
	p := made.ForTopic("t")
	feed(reflect.ValueOf(p), rng)
	out := make([]int, len(r.Keys))
	batches := r.Batches
	for i := range r.Keys {
		if len(batches) > 0 && batches[0] == i {
			batches = batches[1:]
			if hook, ok := p.(kgo.TopicPartitionerOnNewBatch); ok {
				hook.OnNewBatch()
			}
		}
		m := &kgo.Record{Topic: "t", Key: key(r, i)}
		if r.Values != nil {
			m.Value = make([]byte, r.Values[i])
		}
		if r.Explicit != nil {
			m.Partition = r.Explicit[i]
		}
		if by, ok := p.(kgo.TopicBackupPartitioner); ok {
			buffered := append([]int64{}, r.Buffered...)
			if len(buffered) == 0 && r.Keys[i] == nil {
				buffered = make([]int64, r.Count)
			}
			out[i] = by.PartitionByBackup(m, r.Count, &backup{buffered})
		} else {
			out[i] = p.Partition(m, r.Count)
		}
	}
	return out
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(os.Stdout)
	for {
		var r request
		if err := decoder.Decode(&r); err != nil {
			return
		}
		rng := rand.New(&given{numbers: r.Numbers, float: r.Float})
		if made := saramaOf(r.Who); made != nil {
			encoder.Encode(bySarama(&r, made, rng))
		} else if made := franzOf(r.Who, r.Limit); made != nil {
			encoder.Encode(byFranz(&r, made, rng))
		} else {
			fmt.Fprintln(os.Stderr, "nobody is called", r.Who)
			os.Exit(2)
		}
	}
}
