package errata

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/services"
)

// Problem is one thing that is wrong with a file that somebody wrote, for
// programs: one shape, whatever kind of file it is.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`   // from 1; 0: the file as a whole
	Column  int    `json:"column"` // from 1, in characters; 0: not known
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	Missing bool   `json:"-"` // there is no such file
}

// Services loads the files by themselves and then together. All
// problems of all files are in the error; [Of] lists them.
func Services(files []string) ([]*services.Service, error) {
	var out []*services.Service
	var problems []error
	for _, file := range files {
		s, err := validateService(file)
		problems = append(problems, err)
		if s != nil {
			out = append(out, s)
		}
	}
	_, err := services.NewSet(out) // of those that can be read
	problems = append(problems, err)
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return out, nil
}

// validateService reads a service. It is there beside an error of its jq expressions alone.
func validateService(file string) (*services.Service, error) {
	data, err := system.ReadUpTo(file, services.MaxFile+1)
	if err != nil {
		return nil, &Unreadable{file, err}
	}
	s, err := services.Parse(file, data)
	if err != nil {
		return nil, errors.Join(err, filters(services.FiltersIn(file, data)))
	}
	return s, Filters(s)
}

// Unreadable is a file that was named and cannot be read.
type Unreadable struct {
	File string
	Err  error
}

// Error implements error.
func (u *Unreadable) Error() string { return u.File + ": " + u.why() }

// Unwrap returns why.
func (u *Unreadable) Unwrap() error { return u.Err }

func (u *Unreadable) why() string {
	var path *fs.PathError
	switch {
	case errors.Is(u.Err, fs.ErrNotExist):
		return "there is no such file"
	case errors.As(u.Err, &path):
		return "it cannot be read: " + path.Err.Error()
	}
	return "it cannot be read: " + u.Err.Error()
}

// Invalid is [runtime.Invalid] of files that were named; where nothing but files is
// missing, that is what is wrong.
func Invalid(err error, fix string) error {
	list := Of(err)
	if len(list) == 0 || slices.ContainsFunc(list, func(p Problem) bool { return !p.Missing }) {
		return runtime.Invalid(err, fix)
	}
	return NotThere(err.Error(), err)
}

// NotThere is the refusal of what was named by its path and is not there.
func NotThere(what string, err error) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: what, Hint: "check the path", Err: err}
}

// Of lists what an error says of service files and policies, in the order
// of its text. It is empty for errors of any other kind.
func Of(err error) []Problem {
	switch e := err.(type) { // not errors.As: an error may join several
	case services.Problems:
		var out []Problem
		for _, p := range e {
			out = append(out, Problem{File: p.File, Line: p.Line, Column: p.Column, Field: p.Field, Message: p.Msg, Fix: p.Fix})
		}
		return out
	case policy.Problems:
		var out []Problem
		for _, p := range e {
			out = append(out, Problem{File: p.File, Line: p.Line, Column: p.Column, Field: p.Field, Message: p.Msg, Fix: p.Fix})
		}
		return out
	case *services.NameError:
		return []Problem{{File: e.Second.File, Message: e.Error()}}
	case *classifier.OverlapError:
		file, line := place(e.Second.Source)
		return []Problem{{File: file, Line: line, Message: e.Error()}}
	case *Unreadable:
		return []Problem{{File: e.File, Message: e.why(), Fix: "check the path", Missing: errors.Is(e, fs.ErrNotExist)}}
	case interface{ Unwrap() []error }:
		var out []Problem
		for _, one := range e.Unwrap() {
			out = append(out, Of(one)...)
		}
		return out
	case interface{ Unwrap() error }:
		return Of(e.Unwrap())
	}
	return nil
}

// place splits the source of an action, file:line.
func place(source string) (file string, line int) {
	at := strings.LastIndexByte(source, ':')
	if at < 0 {
		return source, 0
	}
	line, err := strconv.Atoi(source[at+1:])
	if err != nil {
		return source, 0
	}
	return source[:at], line
}
