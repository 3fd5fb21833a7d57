package sandbox_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// rung waits for so many timers, and tells in which order they rang.
func (m *machine) rung(n int) []int {
	var order []int
	for range n {
		var got *frame.ToWorker
		select {
		case got = <-m.in:
		default:
			m.say(&frame.ToHost{Idle: &frame.Idle{Timers: true, Heard: len(m.replied)}})
			got = m.next()
		}
		m.replied[got.Reply.Seq] = got.Reply
		order = append(order, got.Reply.Seq)
	}
	return order
}

// Timers once raced each other: of those that were set for the same time any could ring
// first.
func TestTimersRingInTheirOrder(t *testing.T) {
	for name, c := range map[string]struct {
		delays []int
		want   string
	}{
		"equal ones as they were set":    {slices.Repeat([]int{5}, 50), fmt.Sprint(upTo(50))},
		"none as they were set":          {slices.Repeat([]int{0}, 50), fmt.Sprint(upTo(50))},
		"a shorter one first":            {[]int{4, 3, 2, 1}, "[4 3 2 1]"},
		"a shorter one that came behind": {[]int{3, 1, 3, 2, 1, 3}, "[2 5 4 1 3 6]"},
	} {
		b := newBench(t, func(m *machine) any {
			for _, ms := range c.delays {
				m.timer(ms)
			}
			return fmt.Sprint(m.rung(len(c.delays)))
		})
		if got := b.execute(sandbox.Script{Source: "x"}); string(got.Value) != fmt.Sprintf("%q", c.want) {
			t.Errorf("%s: %s, want %s", name, got.Value, c.want)
		}
	}
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i + 1
	}
	return list
}

// A script that is run again hears its timers in the order of before, also where a call
// came between them.
func TestTimersRingAgainAsTheyRang(t *testing.T) {
	var told []string
	b := newBench(t, func(m *machine) any {
		for _, ms := range []int{3, 1, 2, 1} {
			m.timer(ms)
		}
		order := m.rung(4)
		m.do("notes.getNote", `{"id":1}`)
		m.timer(1)
		told = append(told, fmt.Sprint(order, m.rung(1)))
		return m.do("notes.deleteNote", `{"id":1}`)
	})
	got := b.execute(sandbox.Script{Source: "x"})
	b.restart("2:b")
	b.decide("apr_1", nil)
	end := b.resume(got.ExecutionID, 0)
	if text, _ := json.Marshal(told); !end.Success || string(text) != `["[2 4 3 1] [6]","[2 4 3 1] [6]"]` {
		t.Errorf("%+v, rang %s", end, text)
	}
}
