// Command puppet is a worker whose engine does what the source names, so that the
// tests see a process end in every way there is. All but the engine is the product's.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	goruntime "runtime"
	"strings"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != worker.Command {
		os.Exit(1)
	}
	os.Exit(worker.Main(os.Args[2:], os.Stdin, os.Stdout, engine{}))
}

type engine struct{}

// Prepare has nothing to do.
func (engine) Prepare(func() bool) {}

func (engine) Check(source string) (worker.Program, *frame.Checked) {
	if source == "refused" {
		return nil, &frame.Checked{Refusals: []frame.Refusal{{Line: 1, Column: 1, Message: "no"}}}
	}
	return program(source), &frame.Checked{}
}

type program string

func (p program) Run(run *frame.Run, say func(*frame.ToHost), replies <-chan frame.Reply) *frame.Done {
	name, rest, _ := strings.Cut(string(p), " ")
	switch name {
	case "value":
		return &frame.Done{Value: rest}
	case "call": // and give back what comes
		say(&frame.ToHost{Call: &frame.Call{Seq: 1, Kind: frame.CallTool, Path: "demo.echo", Args: rest}})
		say(&frame.ToHost{Idle: &frame.Idle{Waiting: []int{1}}})
		return &frame.Done{Value: (<-replies).Value}
	case "calls": // so many, and say how much came
		n, got := 0, 0
		_, _ = fmt.Sscan(rest, &n)
		for i := range n {
			say(&frame.ToHost{Call: &frame.Call{Seq: i + 1, Kind: frame.CallTool}})
		}
		say(&frame.ToHost{Log: &frame.Log{Level: "info"}})
		for range n {
			got += len((<-replies).Value)
		}
		return &frame.Done{Value: fmt.Sprint(got)}
	case "processors":
		return &frame.Done{Value: fmt.Sprint(goruntime.GOMAXPROCS(0))}
	case "environment":
		return &frame.Done{Value: fmt.Sprintf("%q", os.Environ())}
	case "spin":
		for {
		}
	case "grow":
		var keep [][]byte
		for {
			keep = append(keep, make([]byte, 64<<10))
		}
	case "garbage":
		for range 4000 {
			keep = make([]byte, 1<<20)
		}
		return &frame.Done{Value: "1"}
	case "huge":
		keep = make([]byte, 1<<30)
	case "nest":
		nest(nil)
	case "panic":
		panic("out of order")
	case "exit":
		os.Exit(3)
	case "open":
		_, _ = os.Open("/etc/passwd")
	case "wait":
		<-replies
	case "odd":
		say(odd(rest))
		say(odd(rest)) // what is odd only the second time
		<-replies
	case "flood":
		for i := 1; ; i++ {
			say(&frame.ToHost{Log: &frame.Log{Level: "info", Message: strings.Repeat("x", 10_000)}})
		}
	case "raw":
		raw := map[string][]byte{"long": binary.BigEndian.AppendUint32(nil, frame.Max+1), "text": append([]byte{0, 0, 0, 1}, '{'), "cut": {0, 0, 0, 9, '{'}}[rest]
		_, _ = os.Stdout.Write(raw)
		if rest == "cut" {
			os.Exit(0)
		}
		<-replies
	case "words":
		fmt.Fprint(os.Stderr, strings.Repeat("word\n", 100_000))
		os.Exit(2)
	}
	goruntime.KeepAlive(keep)
	return &frame.Done{Value: "1"}
}

var keep []byte

// odd are messages that no worker of ours sends at this time.
func odd(what string) *frame.ToHost {
	return map[string]*frame.ToHost{
		"ready":    {Ready: &frame.Ready{Level: frame.LevelSeccomp}},
		"checked":  {Checked: &frame.Checked{}},
		"number":   {Call: &frame.Call{Seq: 0, Kind: frame.CallTool}},
		"twice":    {Call: &frame.Call{Seq: 1, Kind: frame.CallTool}},
		"kind":     {Call: &frame.Call{Seq: 1, Kind: "shell"}},
		"args":     {Call: &frame.Call{Seq: 1, Kind: frame.CallTool, Args: strings.Repeat("1", 2<<20)}},
		"value":    {Done: &frame.Done{Value: strings.Repeat("1", 2<<20)}},
		"idle":     {Idle: &frame.Idle{Waiting: make([]int, 200_000)}},
		"unawaits": {Done: &frame.Done{Unawaited: make([]int, 200_000)}},
	}[what]
}

// nest uses the stack until there is none.
func nest(up *[128]byte) byte {
	var here [128]byte
	if up != nil {
		here[0] = up[127]
	}
	return nest(&here) + here[1]
}
