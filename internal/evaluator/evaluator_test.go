package evaluator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/internal/evaluator"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/jq"
)

// The test binary is the process of an expression too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == evaluator.Command {
		os.Exit(evaluator.Main(os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(runtimetest.Settled{M: m})
}

func self(t testing.TB) *evaluator.Evaluator {
	t.Helper()
	file, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	return evaluator.New(file)
}

// What another process gives is what this one would, to the byte.
func TestAnotherProcessGivesTheSame(t *testing.T) {
	const data = `{"n":12345678901234567890,"f":1.50,"list":[3,1,2],"text":"a\u0000é<&>","none":null}`
	e := self(t)
	for _, c := range []struct{ expression, data string }{
		{".list | sort", data},
		{".n, .f, (.list | length)", data},
		{". | tojson", data},
		{"[.list[] | select(. > 1)]", data},
		{".list | map(tostring) | join(\"\\n\")", data},
		{"select(false)", data},
		{"length", data + "\n" + data},
		{"length", ""},
		{"length + 1", `""`},
		{"\"\\u0000\" | length", "1"},
		{"env, $ENV", "1"},
		{"halt", "1"},
		{"length", "<html>"},
		{".list | error", data},
		{".x | nosuch", data},
		{"length | (", data},
		{"input", data},
		{`import "a" as a; 1`, data},
		{"\"xxxx\" * 17e6", "1"},
		{strings.Repeat(" ", 64<<10) + "length", data},
	} {
		want, wantErr := jq.Filter(c.expression, []byte(c.data))
		got, err := e.Filter(t.Context(), c.expression, []byte(c.data))
		if !bytes.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) && !errors.Is(wantErr, jq.ErrNoRoom) || hint(err) != hint(wantErr) && !errors.Is(wantErr, jq.ErrNoRoom) {
			t.Errorf("%.60s: %.100q %v, want %.100q %v", c.expression, got, err, want, wantErr)
		}
	}
}

func hint(err error) string {
	if err == nil {
		return ""
	}
	return runtime.AsError(err).Hint
}

// Nothing of these stops but with its process: a path so long that what follows it nests until
// Go ends the process, a text that is written on and on, one that lasts.
func TestASingleStepEndsWithItsProcess(t *testing.T) {
	e := self(t)
	for _, expression := range []string{
		"reduce range(22) as $i ([0]; .+.) | . as $p | null | setpath($p;1) | length",
		"reduce range(34) as $i (0; [., .]) | tojson | length",
		"reduce range(60) as $i (\"ab\"; . + .) | length",
		"def f: [f]; f",
		"reduce range(40) as $i (0; [., .]) | . == (reduce range(40) as $i (0; [., .]))",
	} {
		out, err := e.Filter(t.Context(), expression, []byte("1"))
		if runtime.CodeOf(err) != runtime.CodeInvalidInput || !strings.Contains(err.Error(), "took more than") {
			t.Errorf("%s: %.100q %v", expression, out, err)
		}
		noneLeft(t)
	}
	if out, err := e.Filter(t.Context(), "length", []byte("[1]")); err != nil || string(out) != "1" {
		t.Errorf("the next: %s %v", out, err)
	}
}

// Who goes away takes the process along, and who waits for a turn goes at once.
func TestItEndsWithItsContext(t *testing.T) {
	e := self(t)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 20 { // more than there are turns
		all.Go(func() {
			_, err := e.Filter(ctx, "def f: f; f", []byte("1"))
			if runtime.CodeOf(err) != runtime.CodeCanceled || !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	begun(t)
	cancel()
	all.Wait()
	noneLeft(t)
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := e.Filter(late, "length", []byte("1")); runtime.CodeOf(err) != runtime.CodeTimeout {
		t.Error(err)
	}
	if out, err := e.Filter(t.Context(), "length", []byte("[1]")); err != nil || string(out) != "1" {
		t.Errorf("a turn was lost: %s %v", out, err)
	}
}

// A process that is none of an expression is a fault of ours and not of who wrote it.
func TestWhatDoesNotAnswerIsSaid(t *testing.T) {
	for _, file := range []string{filepath.Join(t.TempDir(), "none"), "/bin/true", "/bin/echo"} {
		_, err := evaluator.New(file).Filter(t.Context(), "length", []byte("[1]"))
		if runtime.CodeOf(err) != runtime.CodeInternal || runtime.AsError(err).Hint == "" {
			t.Errorf("%s: %v", file, err)
		}
	}
	if status := evaluator.Main(strings.NewReader("\x00"), &bytes.Buffer{}); status == 0 {
		t.Error("a process that was told nothing ended well")
	}
}

// Without a program all is done here.
func TestWithoutAProgramItIsDoneHere(t *testing.T) {
	if out, err := evaluator.New("").Filter(t.Context(), "length", []byte("[1]")); err != nil || string(out) != "1" {
		t.Errorf("%s %v", out, err)
	}
}

func BenchmarkFilter(b *testing.B) {
	e := self(b)
	for b.Loop() {
		if _, err := e.Filter(b.Context(), "length", []byte("[1]")); err != nil {
			b.Fatal(err)
		}
	}
}
