package runtime

import "net/http"

// Resolved is what a [Resolver] finds a request to be.
type Resolved struct {
	Action *Action
	Args   Args      // typed, with defaults where the request is built
	Built  *Built    // what is sent; nil: the caller's own request, or a program
	Others []Reading // what else some server could take the request for; policy is asked about each
}

// Built is a request that kimbap makes from an action and its arguments, without the
// credential. The resolver judges it and the backend sends it: nobody changes it between
// the two, nor afterwards, since it may be sent again.
type Built struct {
	Method    string
	Scheme    string
	Authority string // canonical host:port
	Target    string // raw path and query
	Header    http.Header
	Body      []byte // nil: none
}
