package classifier

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// compiled is a route with everything precomputed that does not depend on the
// request. It is shared by all tries it stands in.
type compiled struct {
	route      Route
	pieces     []piece
	rest       bool // the tail is {name...}: it needs a segment
	conditions []condition
	graphql    *GraphQL
	known      *call // the one GraphQL operation it may be, where a condition gives the document
	jsonrpc    *rpcCondition
	protocol   protocol
	weight     int
	readsBody  bool // some condition looks into the body
	args       argReader
}

func (c *compiled) claim() Claim {
	return Claim{Action: c.route.Action, Path: c.route.Path, Source: c.route.Source}
}

// speaks is 1 for a route that declares the method, 0 for a GET route that
// answers HEAD.
func (c *compiled) speaks(method string) int {
	if slices.Contains(c.route.Methods, method) {
		return 1
	}
	return 0
}

func compileRoute(r Route) (*compiled, error) {
	c := &compiled{route: r}
	var problems []error
	note := func(err error) {
		if err != nil {
			problems = append(problems, &RouteError{Source: r.Source, Action: r.Action, Msg: err.Error()})
		}
	}
	note(checkRoute(r))
	pieces, err := parsePattern(r.Path)
	note(err)
	if n := len(pieces); n > 0 {
		c.pieces, c.rest = pieces, pieces[n-1].kind == rest
	}
	note(c.compileConditions(r.Match))
	if err == nil {
		note(c.args.compile(r.Args, pieces))
	}
	c.args.noteConditions(c.conditions)
	return c, errors.Join(problems...)
}

func checkRoute(r Route) error {
	if r.Action == "" {
		return errors.New("it has no action")
	}
	if len(r.Schemes) == 0 || len(r.Authorities) == 0 || len(r.Methods) == 0 {
		return errors.New("it needs a scheme, an authority and a method")
	}
	for _, scheme := range r.Schemes {
		if scheme != "https" && scheme != "http" {
			return fmt.Errorf("scheme %q is neither https nor http", scheme)
		}
	}
	for _, authority := range r.Authorities {
		if canonical, err := CanonicalAuthority(authority, ""); err != nil || canonical != authority {
			return fmt.Errorf("authority %q is not canonical host:port", authority)
		}
	}
	for _, method := range r.Methods {
		if !validMethod(method) {
			return fmt.Errorf("%q is not a method", method)
		}
	}
	return nil
}

// validMethod reports whether s is a token (RFC 9110 section 5.6.2) that may
// reach an upstream.
func validMethod(s string) bool {
	for i := range len(s) {
		c := s[i]
		upper := c >= 'A' && c <= 'Z'
		if !upper && !labelByte(c) && !strings.ContainsRune("!#$%&'*+.^`|~", rune(c)) {
			return false
		}
	}
	return s != "" && s != http.MethodConnect && s != http.MethodTrace
}
