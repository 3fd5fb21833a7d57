package vm_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
	"github.com/kimbap-run/kimbap/runtime/sandbox/vm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

// limits are the defaults of script mode.
func limits() frame.Limits {
	return frame.Limits{Heap: 96 << 20, Stack: 2000, Calls: 500, Argument: 1 << 20, Result: 1 << 20, Logs: 256 << 10, InFlight: 16}
}

// host is a host with the demo tools. It answers calls at once, in their order, unless
// a test holds them.
type host struct {
	calls   []frame.Call
	logs    []frame.Log
	idle    []frame.Idle
	replies chan frame.Reply
	now     int64
	answer  func(h *host, c frame.Call) // nil: demo
}

func newHost() *host { return &host{replies: make(chan frame.Reply, 12_000), now: start} }

// start is the clock of every script here: 2026-01-02T03:04:05.678Z.
const start = 1767323045678

func (h *host) Call(c frame.Call) {
	h.calls = append(h.calls, c)
	if h.answer != nil {
		h.answer(h, c)
		return
	}
	demo(h, c)
}

func (h *host) Log(l frame.Log)             { h.logs = append(h.logs, l) }
func (h *host) Idle(i frame.Idle)           { h.idle = append(h.idle, i) }
func (h *host) Replies() <-chan frame.Reply { return h.replies }
func (h *host) reply(seq int, value string) {
	h.replies <- frame.Reply{Seq: seq, Now: h.now, Value: value}
}
func (h *host) refuse(e frame.ToolError, seq int) {
	h.replies <- frame.Reply{Seq: seq, Now: h.now, Error: &e}
}

// demo answers one call as the demo tools do.
func demo(h *host, c frame.Call) {
	switch {
	case c.Kind == frame.CallTimer:
		ms, _ := strconv.ParseInt(c.Args, 10, 64)
		h.now += ms
		h.reply(c.Seq, "")
	case c.Kind == frame.CallSearch:
		h.reply(c.Seq, `{"items":[{"path":"demo.echo"}],"total":1,"hasMore":false,"nextOffset":null}`)
	case c.Kind == frame.CallDescribe:
		h.reply(c.Seq, `{"path":"demo.echo"}`)
	case c.Path == "demo.echo":
		h.reply(c.Seq, c.Args)
	case c.Path == "demo.sleep":
		h.reply(c.Seq, `{"slept":true}`)
	case c.Path == "demo.fail":
		h.refuse(frame.ToolError{Tool: c.Path, Code: "upstream", Message: "the upstream said no", Status: 502, Retryable: true}, c.Seq)
	case c.Path == "demo.danger": // waits for an approval that never comes
	default:
		h.refuse(frame.ToolError{Tool: c.Path, Code: "unknown_action", Message: "no such tool: " + c.Path}, c.Seq)
	}
}

// run runs a source to its end, or for at most a deadline.
func run(t *testing.T, source string, h *host, deadline time.Duration) frame.Done {
	t.Helper()
	p, refusals := gate.Check(source)
	if p == nil {
		return frame.Done{Failure: &frame.Failure{Kind: frame.KindRejected, Message: refusals[0].Message, Line: refusals[0].Line, Column: refusals[0].Column}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	return vm.New().Run(ctx, p, frame.Run{Now: start, Seed: 7, Limits: limits()}, h)
}

// value runs a source that must end well, and reads what it returned.
func value(t *testing.T, source string) any {
	t.Helper()
	done := run(t, source, newHost(), 30*time.Second)
	if done.Failure != nil {
		t.Fatalf("%s\nfailed: %+v", source, *done.Failure)
	}
	if done.Value == "" {
		return nil
	}
	var v any
	if err := json.NewDecoder(strings.NewReader(done.Value)).Decode(&v); err != nil {
		t.Fatalf("%s\nreturned no JSON: %q", source, done.Value)
	}
	return v
}

func TestAScriptReturnsItsValue(t *testing.T) {
	for source, want := range map[string]any{
		"return 1": 1.0,
		"const r = await tools.demo.echo({a: [1, 2]}); return r.a[1]": 2.0,
		"return undefined": nil,
		"async (tools) => (await tools.demo.echo({a: 2})).a":                         2.0,
		"async ({ demo }) => (await demo.echo({a: 2})).a":                            2.0,
		"async ({ tools }) => (await tools.demo.echo({a: 2})).a":                     2.0,
		"async function main({ tools: t }) { return (await t.demo.echo({a: 2})).a }": 2.0,
	} {
		if got := value(t, source); got != want {
			t.Errorf("%s = %v, want %v", source, got, want)
		}
	}
}

func decode(text string) (v any, err error) {
	err = json.Unmarshal([]byte(text), &v)
	return v, err
}
