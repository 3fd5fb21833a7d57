package evaluator

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	goruntime "runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/jq"
)

// Command is the argument that makes a kimbap the process of an expression.
const Command = "__jq"

// How a process ends.
const (
	exitSignal = -1 // by a signal of somebody else's, as os/exec says it
	exitFatal  = 2  // by Go: a stack that is too deep, no memory
	exitMemory = 3
	exitTime   = 4
	exitUntold = 5 // it was told nothing, or nobody listens
)

// What the first byte of an answer says of those that follow.
const (
	saysResults byte = '='
	saysRefusal byte = '!'
)

// refusal is what others are told of an error.
type refusal struct {
	Code      runtime.Code
	Msg, Hint string
}

// look is how often the memory is looked at.
const look = 2 * time.Millisecond

// Main is the process of one expression, which it reads from in; the result is the exit status.
// It returns at the bounds also while a step of the expression is at work, which ends then with
// the process.
func Main(in io.Reader, out io.Writer) int {
	expression, data, err := told(in)
	if err != nil {
		return exitUntold
	}
	goruntime.GOMAXPROCS(2) // the second is for the look at the memory, and the collector
	debug.SetTraceback("none")
	debug.SetMaxStack(jq.Memory)
	ctx, cancel := context.WithTimeout(context.Background(), jq.Time)
	defer cancel()
	ended := make(chan int, 2)
	most := memory() + jq.Memory
	debug.SetMemoryLimit(int64(most - jq.Memory/4)) // garbage alone never reaches the bound
	go func() { ended <- watch(ctx, most) }()
	go func() { ended <- answer(ctx, expression, data, out) }()
	return <-ended
}

func told(in io.Reader) (expression string, data []byte, err error) {
	var sizes [2]uint32
	if err := binary.Read(in, binary.BigEndian, &sizes); err != nil {
		return "", nil, err
	}
	text := make([]byte, sizes[0])
	if _, err := io.ReadFull(in, text); err != nil {
		return "", nil, err
	}
	data = make([]byte, sizes[1])
	_, err = io.ReadFull(in, data)
	return string(text), data, err
}

// watch returns when there is more memory than that, or the time is over.
func watch(ctx context.Context, most uint64) int {
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return exitTime
		case <-ticks.C:
			if memory() > most {
				return exitMemory
			}
		}
	}
}

// memory is how many bytes objects have, those included that are not yet collected, and stacks.
func memory() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() + samples[1].Value.Uint64()
}

func answer(ctx context.Context, expression string, data []byte, out io.Writer) int {
	first := saysResults
	rest, err := jq.Evaluate(ctx, expression, data)
	if err != nil {
		e := runtime.AsError(err)
		first = saysRefusal
		rest, _ = json.Marshal(refusal{e.Code, e.Msg, e.Hint}) // cannot fail: they are texts
	}
	if _, err := out.Write([]byte{first}); err != nil {
		return exitUntold
	}
	if _, err := out.Write(rest); err != nil {
		return exitUntold
	}
	return 0
}
