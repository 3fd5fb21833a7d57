package app

import "github.com/kimbap-run/kimbap/internal/errata"

// FileProblem is one thing that is wrong with a file that somebody wrote, for
// programs: one shape, whatever kind of file it is.
type FileProblem = errata.Problem

// ValidateServices loads the files by themselves and then together. All
// problems of all files are in the error; [FileProblems] lists them.
func ValidateServices(files []string) ([]*Service, error) { return errata.Services(files) }

// FileProblems lists what an error says of service files and policies, in the order
// of its text. It is empty for errors of any other kind.
func FileProblems(err error) []FileProblem { return errata.Of(err) }
