// Package jq runs jq expressions over answers, of whatever action they are: to show a part
// of one, to make data of a program's text, to find the next page.
//
// An expression gets nothing but the data: no environment, no files, no modules. It can
// loop for ever and double what it holds with every step, so one that takes too much time,
// memory or output is refused. Of a single step only the end of the process is the end: one that
// is not [Plain] and somebody else's runs in a process of its own (internal/evaluator), which
// calls [Evaluate].
//
// Start reading at [Filter].
package jq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	goruntime "runtime"
	"runtime/metrics"
	"time"

	"github.com/itchyny/gojq"

	"github.com/kimbap-run/kimbap/runtime"
)

// Bounds of a jq expression, which can loop for ever and double what it holds
// with every step.
const (
	filterTime   = 5 * time.Second
	filterMemory = 256 << 20 // what the process may have grown by, bytes
	filterLook   = 2 * time.Millisecond
	filterOutput = 64 << 20 // of all results together, bytes
	perValue     = 4        // bytes that each value counts as beside its text
	filterText   = 64 << 10 // of the expression itself, bytes
)

// The bounds, for who ends the process of an expression at them.
const (
	Time   = filterTime
	Memory = filterMemory // bytes
	Output = filterOutput // bytes
)

// ErrNoRoom is in the error of an expression that ran out of memory, be it by itself or
// because others took it at the time.
var ErrNoRoom = errors.New("no room in memory")

// again lets one expression at a time try again that ran out of memory beside others.
var again = make(chan struct{}, 1)

// Filter runs a jq expression over JSON data and returns its results, one JSON
// value a line. Numbers keep their digits. The expression sees no environment,
// no files, no modules and no input but the data. It may take five seconds and a
// quarter of a gibibyte, and give 64 MiB; one that goes on after that inside a
// single step is left behind, and ends with the process. What the rest of the process
// takes meanwhile cannot be told apart: out of memory, it is tried once more when no other
// is. Errors are *runtime.Error with CodeInvalidInput.
func Filter(expression string, data []byte) ([]byte, error) {
	return within(expression, data, heap)
}

func within(expression string, data []byte, heap func() uint64) ([]byte, error) {
	code, err := compile(expression)
	if err != nil {
		return nil, err
	}
	out, err := attempt(code, data, heap)
	if !errors.Is(err, ErrNoRoom) {
		return out, err
	}
	select {
	case again <- struct{}{}:
		defer func() { <-again }()
	case <-time.After(filterTime):
		return nil, err
	}
	goruntime.GC() // what others have left is nothing that it takes
	return attempt(code, data, heap)
}

// attempt is one try. Out of memory it returns once the expression has ended, so that it can
// be tried again.
func attempt(code *gojq.Code, data []byte, heap func() uint64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), filterTime)
	defer cancel()
	type outcome struct {
		lines []byte
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() { done <- o }()
		defer runtime.Contain(&o.err)
		o.lines, o.err = filter(ctx, code, data)
	}()
	look := time.NewTicker(filterLook)
	defer look.Stop()
	for before := heap(); ; {
		select {
		case o := <-done:
			return o.lines, o.err
		case <-ctx.Done():
			return nil, TooLong()
		case <-look.C:
			if heap() <= before+filterMemory {
				continue
			}
			cancel()
			select {
			case <-done:
				return nil, noRoom()
			case <-time.After(filterTime):
				return nil, TooMuch()
			}
		}
	}
}

func noRoom() error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Err: ErrNoRoom,
		Msg:  fmt.Sprintf("there was no room in memory for the jq expression: with what ran beside it, it took more than %d MiB", filterMemory>>20),
		Hint: "ask for less at once, or again when less runs; if it fails alone too, write an expression that needs less",
	}
}

// Evaluate is Filter for a process that does nothing else, and that ends when ctx does or its
// memory has grown too much: it bounds the output alone, and is not tried again.
func Evaluate(ctx context.Context, expression string, data []byte) (out []byte, err error) {
	code, err := compile(expression)
	if err != nil {
		return nil, err
	}
	defer runtime.Contain(&err)
	return filter(ctx, code, data)
}

// TooLong is the error of an expression that was ended at [Time].
func TooLong() error { return errFilter("the jq expression took more than %v", filterTime) }

// TooMuch is the error of an expression that was ended at [Memory].
func TooMuch() error {
	return errFilter("the jq expression took more than %d MiB of memory", filterMemory>>20)
}

func tooLarge() error {
	return errFilter("the result of the jq expression is over %d MiB", filterOutput>>20)
}

// Check reports what is wrong with a jq expression, nil for nothing.
func Check(expression string) error {
	_, err := compile(expression)
	return err
}

func compile(expression string) (*gojq.Code, error) {
	if len(expression) > filterText {
		return nil, errFilter("the jq expression is longer than %d KiB", filterText>>10)
	}
	query, err := gojq.Parse(expression)
	if err != nil {
		return nil, errFilter("the jq expression cannot be read: %v", err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, errFilter("the jq expression cannot be compiled: %v", err)
	}
	return code, nil
}

// heap is how many bytes live and not yet collected objects have.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func filter(ctx context.Context, code *gojq.Code, data []byte) ([]byte, error) {
	var out bytes.Buffer
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	for {
		var input any
		if err := dec.Decode(&input); errors.Is(err, io.EOF) {
			return bytes.TrimRight(out.Bytes(), "\n"), nil
		} else if err != nil {
			return nil, errFilter("the answer is not JSON, so jq cannot read it")
		}
		if err := run(ctx, code, input, &out); err != nil {
			return nil, err
		}
	}
}

func run(ctx context.Context, code *gojq.Code, input any, out *bytes.Buffer) error {
	for results := code.RunWithContext(ctx, input); ; {
		v, more := results.Next()
		if !more {
			return nil
		}
		if err, failed := v.(error); failed {
			var halt *gojq.HaltError
			if errors.As(err, &halt) && halt.Value() == nil {
				return nil
			}
			if ctx.Err() != nil {
				return TooLong()
			}
			return errFilter("the jq expression failed: %.500v", err)
		}
		if room := filterOutput - out.Len(); weigh(v, room) < 0 {
			return tooLarge()
		}
		line, err := gojq.Marshal(v)
		if err != nil {
			return errFilter("the result of jq cannot be written as JSON: %v", err)
		}
		if out.Len()+len(line) > filterOutput { // escapes are longer than what they stand for
			return tooLarge()
		}
		out.Write(line)
		out.WriteByte('\n')
	}
}

// weigh takes from room what a value needs, about, when it is written out. It
// stops below zero: a value may hold the same part many times over.
func weigh(v any, room int) int {
	room -= perValue
	switch v := v.(type) {
	case string:
		return room - len(v)
	case []any:
		for _, item := range v {
			if room = weigh(item, room); room < 0 {
				break
			}
		}
	case map[string]any:
		for name, item := range v {
			if room = weigh(item, room-len(name)); room < 0 {
				break
			}
		}
	}
	return room
}

func errFilter(format string, args ...any) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf(format, args...),
		Hint: "check the expression with a small one first: --jq .",
	}
}
