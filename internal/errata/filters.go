package errata

import (
	"fmt"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/jq"
)

// Filters compiles the jq expressions of a service, which the file's own
// check leaves to whoever runs them. The error has all that do not.
func Filters(s *services.Service) error {
	var problems services.Problems
	check := func(action *runtime.Action, field, expression string) {
		if expression == "" {
			return
		}
		if err := jq.Check(expression); err != nil {
			file, line := place(action.Source)
			problems = append(problems, services.Problem{
				File: file, Line: line, Column: 1, Field: action.Name + "." + field,
				Msg: fmt.Sprintf("%s.%s: %s", action.Name, field, runtime.AsError(err).Msg),
			})
		}
	}
	for _, a := range s.Actions {
		if a.HTTP != nil {
			check(a, "response.filter", a.HTTP.Filter)
			if a.HTTP.Pages != nil {
				check(a, "pagination.next", a.HTTP.Pages.Next)
			}
		}
		if a.Command != nil {
			check(a, "response.filter", a.Command.Filter)
			check(a, "response.text_filter", a.Command.TextFilter)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return problems
}
