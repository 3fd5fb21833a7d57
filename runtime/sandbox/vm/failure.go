package vm

import (
	"cmp"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/dop251/goja"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
)

// maxMessage is the length of the longest message of a failure, in bytes.
const maxMessage = 8 << 10

// finish ends the run: the calls that have no reply are told of.
func (s *script) finish(f *frame.Failure) frame.Done {
	return frame.Done{Failure: f, Unawaited: s.unawaited()}
}

// unawaited are the calls of tools that the script did not wait for.
func (s *script) unawaited() []int {
	var list []int
	for seq, c := range s.waiting {
		if c.kind != frame.CallTimer {
			list = append(list, seq)
		}
	}
	slices.Sort(list)
	return list
}

func (s *script) stop(why *stop) frame.Done {
	return s.finish(&frame.Failure{Kind: why.kind, Message: why.message})
}

// failed ends the run for an error that came out of goja.
func (s *script) failed(err error) frame.Done {
	if s.stopped != nil {
		return s.stop(s.stopped)
	}
	var interrupted *goja.InterruptedError
	var deep *goja.StackOverflowError
	var thrown *goja.Exception
	switch {
	case errors.As(err, &interrupted):
		if why, ok := interrupted.Value().(*stop); ok {
			return s.stop(why)
		}
	case errors.As(err, &deep):
		return s.finish(&frame.Failure{Kind: frame.KindStack, Message: "The script calls itself too deep"})
	case errors.As(err, &thrown):
		return s.finish(s.thrown(thrown.Value()))
	}
	return s.stop(&stop{frame.KindInterrupted, "The run was ended by what it was told"})
}

// ending ends the run for a panic of Go: the engine was asked for more than there can be.
func (s *script) ending(broken any) frame.Done {
	if err, ok := broken.(error); ok {
		var fault goruntime.Error
		if !errors.As(err, &fault) {
			return s.failed(err)
		}
	}
	if tooMuch(broken) {
		return s.stop(&stop{frame.KindMemory, "The script wanted more memory than there is"})
	}
	return s.stop(&stop{frame.KindException, "The engine cannot do this"})
}

// tooMuch reports whether Go panicked because it was asked for more memory than there is.
func tooMuch(broken any) bool {
	text := fmt.Sprint(broken)
	for _, sign := range []string{"makeslice", "growslice", "too large", "overflow", "Repeat", "out of memory"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// thrown describes a value that a script threw. To read it may run code of the script:
// what that throws, or that it does not end, is the description.
func (s *script) thrown(v goja.Value) *frame.Failure {
	f := &frame.Failure{Kind: frame.KindException, Name: "Error", Message: "The script threw a value that cannot be shown"}
	err := s.guarded(func() { s.describe(f, v) })
	var again *goja.Exception
	if err != nil && !errors.As(err, &again) {
		return s.failed(err).Failure
	}
	return f
}

// guarded runs what may run code of the script, from outside of it.
func (s *script) guarded(f func()) (err error) {
	defer func() {
		if x := recover(); x != nil {
			e, ok := x.(error)
			if !ok {
				panic(x)
			}
			var fault goruntime.Error
			if errors.As(e, &fault) {
				panic(x)
			}
			err = e
		}
	}()
	if ex := s.rt.Try(f); ex != nil {
		return ex
	}
	return nil
}

func (s *script) describe(f *frame.Failure, v goja.Value) {
	o, ok := v.(*goja.Object)
	if !ok {
		f.Message = clip(v.String(), maxMessage)
		if goja.IsUndefined(v) || goja.IsNull(v) {
			f.Message = "The script threw " + v.String()
		}
		return
	}
	if o.ClassName() != "Error" {
		if text, _ := s.writer(maxMessage).write(o); text != "" {
			f.Message = text
		}
		return
	}
	name, message, stack := property(o, "name"), property(o, "message"), property(o, "stack")
	if name != "" {
		f.Name = clip(name, 200)
	}
	f.Message = clip(clean(message), maxMessage)
	f.Line, f.Column, f.Stack = s.trace(stack)
}

func property(o *goja.Object, name string) string {
	v := o.Get(name)
	if v == nil || goja.IsUndefined(v) {
		return ""
	}
	return v.String()
}

// trace finds the places in the script that a stack names, in the words of its source.
func (s *script) trace(stack string) (line, column int, text string) {
	var out []string
	for row := range strings.SplitSeq(clip(stack, 64<<10), "\n") {
		function, l, c, ok := s.row(row)
		if !ok || len(out) >= 20 {
			continue
		}
		if line == 0 {
			line, column = l, c
		}
		out = append(out, fmt.Sprintf("at %s (%d:%d)", cmp.Or(function, gate.FileName), l, c))
	}
	return line, column, strings.Join(out, "\n")
}

// rawRow begins a line of a stack as goja writes it, toldRow one as [script.reword] does.
const (
	rawRow  = "\n\tat "
	toldRow = "    at "
)

// row reads one line of a stack: as goja writes it, at NAME (script:3:7(12)), or as it was
// told, at NAME (3:7).
func (s *script) row(text string) (function string, line, column int, ok bool) {
	if told, ok := strings.CutPrefix(text, toldRow); ok {
		name, place, _ := cutLast(strings.TrimSuffix(told, ")"), " (")
		line, column, ok = numbers(place)
		return clip(name, 100), line, column, ok
	}
	text, ok = strings.CutPrefix(strings.TrimSpace(text), "at ")
	if !ok {
		return "", 0, 0, false
	}
	if name, rest, named := strings.Cut(text, " ("+gate.FileName+":"); named {
		function, text = clip(name, 100), rest
	} else if text, ok = strings.CutPrefix(text, gate.FileName+":"); !ok {
		return "", 0, 0, false
	}
	place, _, _ := strings.Cut(text, "(")
	line, column, _ = numbers(place)
	line, column = s.program.Place(line, column)
	return function, line, column, line > 0
}

// numbers reads LINE:COLUMN.
func numbers(place string) (line, column int, ok bool) {
	row, col, _ := strings.Cut(place, ":")
	line, err := strconv.Atoi(row)
	column, err2 := strconv.Atoi(col)
	return line, column, err == nil && err2 == nil && line > 0 && column > 0
}

// cutLast cuts a text at the last place of a separator.
func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}

// clip cuts a text to a length in bytes, between characters.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && text[limit]&0xc0 == 0x80 {
		limit--
	}
	return text[:limit] + "…"
}

// amount is a number of bytes as configurations write it.
func amount(bytes int) string {
	switch {
	case bytes%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// result writes the value of a script that ended well.
func (s *script) result(v goja.Value) frame.Done {
	var text string
	var why over
	w := s.writer(s.limits.Result)
	err := s.guarded(func() { text, why = w.write(v) })
	switch {
	case why == tooLong:
		return s.stop(&stop{frame.KindMemory, "The result of the script is over " + amount(s.limits.Result)})
	case why == tooDeep:
		return s.stop(&stop{frame.KindStack, "The result of the script nests too deep"})
	case err != nil:
		done := s.failed(err)
		if done.Failure.Kind == frame.KindException {
			done.Failure.Message = "The result of the script is no JSON: " + done.Failure.Message
		}
		return done
	}
	if w.hollow != "" {
		s.warn(fmt.Sprintf("The result holds %s, which JSON has as {}: %s", w.hollow, saved[w.hollow]))
	}
	s.warnings()
	return frame.Done{Value: text, Unawaited: s.unawaited()}
}
