package app

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/services"
)

// FileProblem is one thing that is wrong with a file that somebody wrote, for
// programs: one shape, whatever kind of file it is.
type FileProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`   // from 1; 0: the file as a whole
	Column  int    `json:"column"` // from 1, in characters; 0: not known
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	Missing bool   `json:"-"` // there is no such file
}

// ValidateServices loads the files by themselves and then together. All
// problems of all files are in the error; [FileProblems] lists them.
func ValidateServices(files []string) ([]*Service, error) {
	var out []*Service
	var problems []error
	for _, file := range files {
		s, err := validateService(file)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		out = append(out, s)
	}
	if len(problems) == 0 {
		_, err := services.NewSet(out)
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return out, nil
}

func validateService(file string) (*Service, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, &unreadable{file, err}
	}
	s, err := services.Parse(file, data)
	if err == nil {
		err = checkFilters(s)
	}
	return s, err
}

// unreadable is a file that was named and cannot be read.
type unreadable struct {
	file string
	err  error
}

func (u *unreadable) Error() string { return u.file + ": " + u.why() }
func (u *unreadable) Unwrap() error { return u.err }

func (u *unreadable) why() string {
	var path *fs.PathError
	switch {
	case errors.Is(u.err, fs.ErrNotExist):
		return "there is no such file"
	case errors.As(u.err, &path):
		return "it cannot be read: " + path.Err.Error()
	}
	return "it cannot be read: " + u.err.Error()
}

// invalidFiles is [runtime.Invalid] of files that were named; where nothing but files is
// missing, that is what is wrong.
func invalidFiles(err error, fix string) error {
	list := FileProblems(err)
	if len(list) == 0 || slices.ContainsFunc(list, func(p FileProblem) bool { return !p.Missing }) {
		return runtime.Invalid(err, fix)
	}
	return notThere(err.Error(), err)
}

// notThere is the refusal of what was named by its path and is not there.
func notThere(what string, err error) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: what, Hint: "check the path", Err: err}
}

// FileProblems lists what an error says of service files and policies, in the order
// of its text. It is empty for errors of any other kind.
func FileProblems(err error) []FileProblem {
	switch e := err.(type) { // not errors.As: an error may join several
	case services.Problems:
		var out []FileProblem
		for _, p := range e {
			out = append(out, FileProblem{File: p.File, Line: p.Line, Column: p.Column, Field: p.Field, Message: p.Msg, Fix: p.Fix})
		}
		return out
	case policy.Problems:
		var out []FileProblem
		for _, p := range e {
			out = append(out, FileProblem{File: p.File, Line: p.Line, Column: p.Column, Field: p.Field, Message: p.Msg, Fix: p.Fix})
		}
		return out
	case *services.NameError:
		return []FileProblem{{File: e.Second.File, Message: e.Error()}}
	case *classifier.OverlapError:
		file, line := place(e.Second.Source)
		return []FileProblem{{File: file, Line: line, Message: e.Error()}}
	case *unreadable:
		return []FileProblem{{File: e.file, Message: e.why(), Fix: "check the path", Missing: errors.Is(e, fs.ErrNotExist)}}
	case interface{ Unwrap() []error }:
		var out []FileProblem
		for _, one := range e.Unwrap() {
			out = append(out, FileProblems(one)...)
		}
		return out
	case interface{ Unwrap() error }:
		return FileProblems(e.Unwrap())
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
