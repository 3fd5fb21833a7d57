package main

import (
	"fmt"

	"github.com/kimbap-run/kimbap/internal/app"
)

// problems is how a command that checks files ends, with what is wrong with them. As
// data it is a list on stdout; as text it is what, and err itself where that is "".
func (c *cli) problems(err error, what string) error {
	list := app.FileProblems(err)
	switch {
	case len(list) == 0: // of something else than the files
		return err
	case c.output != "text":
		return c.listProblems(list)
	case len(list) == 1 && list[0].Missing && what != "":
		return &failure{what: "there is no file " + list[0].File, fix: list[0].Fix, exit: exitNotFound}
	case what == "":
		return err
	}
	return &failure{what: what, fix: "correct what is listed, and check again", exit: exitOfProblems(list)}
}

// listProblems prints the problems as data.
func (c *cli) listProblems(list []app.FileProblem) error {
	if err := c.show(list, func() {}); err != nil {
		return err
	}
	return &failure{what: fmt.Sprintf("%s, listed on stdout", count(len(list), "problem")), fix: "correct what is listed, and check again", exit: exitOfProblems(list)}
}

// exitOfProblems is 3 where nothing but a file is missing, else 2.
func exitOfProblems(list []app.FileProblem) int {
	for _, p := range list {
		if !p.Missing {
			return exitUsage
		}
	}
	return exitNotFound
}
