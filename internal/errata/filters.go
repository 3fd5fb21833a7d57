package errata

import (
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/jq"
)

// Filters compiles the jq expressions of a service, which the file's own
// check leaves to whoever runs them. The error has all that do not.
func Filters(s *services.Service) error { return filters(s.Filters) }

func filters(of []services.Filter) error {
	var problems services.Problems
	for _, f := range of {
		if err := jq.Check(f.Expression); err != nil {
			p := f.Place
			p.Msg, p.Fix = p.Field+": "+runtime.AsError(err).Msg, "write it as for jq 1.7, like map({id, name})"
			problems = append(problems, p)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return problems
}
