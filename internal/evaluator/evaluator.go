package evaluator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/jq"
)

// Times of a process beside that of its expression.
const (
	grace     = 2 * time.Second // for its start, and to be told and to tell
	waitDelay = time.Second     // for its pipes, after its end
)

// mostAtOnce bounds the processes of an Evaluator, each of which may take [jq.Memory].
const mostAtOnce = 8

// Evaluator runs expressions. It is safe for concurrent use and has nothing to close: a call
// returns when its process has ended.
type Evaluator struct {
	executable string
	turns      chan struct{} // room for the processes that there may be at once
}

// New makes an Evaluator that starts a kimbap; without one, "", it runs all expressions in
// this process.
func New(executable string) *Evaluator {
	return &Evaluator{executable, make(chan struct{}, min(goruntime.NumCPU(), mostAtOnce))}
}

// Filter is [jq.Filter] in another process. It waits for its turn and for the answer as long as
// ctx lasts.
func (e *Evaluator) Filter(ctx context.Context, expression string, data []byte) ([]byte, error) {
	if e.executable == "" || jq.Plain(expression) {
		return jq.Filter(expression, data)
	}
	if len(data) > math.MaxUint32 { // cannot be: answers are bounded
		return nil, jq.TooMuch()
	}
	select {
	case e.turns <- struct{}{}:
		defer func() { <-e.turns }()
	case <-ctx.Done():
		return nil, ended(ctx)
	}
	return e.run(ctx, expression, data)
}

func (e *Evaluator) run(ctx context.Context, expression string, data []byte) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, jq.Time+grace)
	defer cancel()
	out := bounded{most: 1 + jq.Output}
	cmd := exec.CommandContext(limited, e.executable, Command)
	cmd.Args[0], cmd.Env, cmd.SysProcAttr, cmd.WaitDelay = "kimbap", []string{}, system.Apart(), waitDelay
	cmd.Stdin = io.MultiReader(bytes.NewReader(head(expression, data)), strings.NewReader(expression), bytes.NewReader(data))
	cmd.Stdout, cmd.Stderr = &out, io.Discard // what Go says at a fatal end is nobody's to read
	err := cmd.Run()
	switch {
	case err == nil:
		return said(out.Bytes())
	case ctx.Err() != nil:
		return nil, ended(ctx)
	case limited.Err() != nil:
		return nil, jq.TooLong()
	}
	return nil, died(err)
}

// head says how long the expression and the data are that follow it.
func head(expression string, data []byte) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(len(expression))), uint32(len(data)))
}

// said is the answer of a process: a byte that says what follows, the results or an error.
func said(answer []byte) ([]byte, error) {
	if len(answer) > 0 && answer[0] == saysResults {
		return answer[1:], nil
	}
	var r refusal
	if len(answer) == 0 || json.Unmarshal(answer[1:], &r) != nil {
		return nil, broken(errors.New("it did not answer"))
	}
	return nil, &runtime.Error{Code: cmp.Or(r.Code, runtime.CodeInternal), Msg: r.Msg, Hint: r.Hint}
}

// died is the error of a process that ended without an answer. What ends one that has met no
// bound is memory too: Go ends it where a stack is too deep, or the system has none left.
func died(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return broken(err)
	}
	switch exit.ExitCode() {
	case exitTime:
		return jq.TooLong()
	case exitMemory, exitFatal, exitSignal:
		return jq.TooMuch()
	}
	return broken(err)
}

func broken(err error) error {
	return &runtime.Error{
		Code: runtime.CodeInternal, Msg: "the process of the jq expression gave no answer",
		Hint: "try again when less runs on this machine", Err: fmt.Errorf("evaluate a jq expression: %w", err),
	}
}

func ended(ctx context.Context) error {
	e := &runtime.Error{Code: runtime.CodeCanceled, Msg: "the caller went away before the jq expression was through", Err: ctx.Err()}
	if errors.Is(e.Err, context.DeadlineExceeded) {
		e.Code, e.Msg = runtime.CodeTimeout, "the time given for the call was over before the jq expression was through"
	}
	return e
}

// bounded keeps so many bytes, and takes no more.
type bounded struct {
	bytes.Buffer
	most int
}

// Write implements [io.Writer].
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		return 0, errors.New("the answer is too long")
	}
	return b.Buffer.Write(p)
}
