package history

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// latest reads a slot from its end.
type latest struct {
	dir     string // of the slot
	slot    string
	texts   [][]byte               // lines without one of them are no match
	mayHold func(line []byte) bool // nor are those of which this says so; nil: none
	bounded bool
	left    int64 // bytes that may still be read, with bounded
	numbers []int // of the segments before the open one
	listed  bool
	count   int // of the lines that were read
	number  int // of the open one
	file    *os.File
	lines   *segment.Backward
	endings *endings // nil: intents do not say how they ended
}

func (s *latest) close() {
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}

// before returns the match before the one that it last returned; io.EOF if there is none.
func (s *latest) before(ctx context.Context, q *Query) (record.Entry, error) {
	for {
		if s.count++; s.count%1000 == 0 {
			if err := ctx.Err(); err != nil {
				return record.Entry{}, err
			}
		}
		if s.file == nil {
			if err := s.open(); err != nil {
				return record.Entry{}, err
			}
		}
		at := s.lines.Start
		line, err := s.lines.Next()
		s.left -= at - s.lines.Start
		switch {
		case errors.Is(err, io.EOF):
			s.close()
			continue
		case errors.Is(err, segment.ErrLong):
			continue
		case err != nil:
			return record.Entry{}, err
		case s.bounded && s.left < 0:
			return record.Entry{}, io.EOF
		}
		link, err := segment.ParseLink(line)
		if err != nil {
			continue
		}
		var ended *ending
		if s.endings != nil {
			ended = s.endings.meet(link, s.number, s.lines.Start, line)
		}
		if !s.may(q, link.Kind, line, ended) {
			continue
		}
		e, err := record.Parse(s.slot, line)
		if err != nil {
			continue
		}
		if ended != nil {
			s.endings.tell(&e, ended)
		}
		if q.Matches(&e) {
			return e, nil
		}
	}
}

// may reports whether a line may be a match, before it is parsed.
func (s *latest) may(q *Query, kind record.Kind, line []byte, ended *ending) bool {
	if q.Kind != "" && q.Kind != string(kind) || !holds(line, s.texts) || s.mayHold != nil && !s.mayHold(line) {
		return false
	}
	if !bytes.Contains(line, []byte(q.Code)) && (ended == nil || !ended.code) {
		return false
	}
	at, ok := record.TimeOf(line)
	// One before q.Since is not the end: the clock may have been set back.
	return !ok || !at.Before(q.Since) && (q.Until.IsZero() || at.Before(q.Until))
}

// texts are what the line of each match holds, as it stands there, beside the code: most lines
// are told from a match by that.
func (q *Query) texts() (out [][]byte) {
	all := []string{q.Text, q.RequestID, q.Execution, q.Effect}
	if !q.Home {
		all = append(all, string(q.Tenant))
	}
	for _, text := range all {
		if text != "" {
			out = append(out, []byte(text))
		}
	}
	for _, g := range []runtime.Glob{q.Action, q.Agent, q.Host} {
		out = append(out, plain(string(g))...)
	}
	return out
}

// plain is what JSON never escapes of a text.
func plain(text string) (out [][]byte) {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	}) {
		out = append(out, []byte(part))
	}
	return out
}

// holds reports whether a line has all texts.
func holds(line []byte, texts [][]byte) bool {
	return !slices.ContainsFunc(texts, func(text []byte) bool { return !bytes.Contains(line, text) })
}

// open opens the segment before the one that was read, io.EOF if there is none.
func (s *latest) open() error {
	if !s.listed {
		numbers, err := segment.List(s.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.numbers, s.listed = numbers, true
	}
	if len(s.numbers) == 0 {
		return io.EOF
	}
	last := len(s.numbers) - 1
	s.number, s.numbers = s.numbers[last], s.numbers[:last]
	f, err := os.Open(filepath.Join(s.dir, segment.Name(s.number)))
	if errors.Is(err, fs.ErrNotExist) { // it was given up, as all before it
		return io.EOF
	}
	if err != nil {
		return err
	}
	var end int64
	info, err := f.Stat()
	if err == nil {
		end, err = segment.RecordsEnd(f, info.Size())
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	s.file, s.lines = f, segment.NewBackward(f, end)
	return nil
}
