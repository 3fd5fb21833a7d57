package server

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/kimbap-run/kimbap/runtime"
)

// Console is the web page of an operator (internal/server/console): all that is below its base.
type Console interface {
	http.Handler
	Base() string
}

// console leads to the page for browsers what is below its base, called by a name of ours. All
// else goes on, to where browsers are refused.
func (s *Server) console(pages http.Handler) http.Handler {
	if s.o.Console == nil {
		return pages
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		base := s.o.Console.Base()
		switch {
		case r.URL.Path+"/" == base && r.Method == http.MethodGet && s.ourName(r):
			http.Redirect(w, r, base, http.StatusSeeOther)
		case !strings.HasPrefix(r.URL.Path, base):
			pages.ServeHTTP(w, r)
		case !s.ourName(r):
			s.problem(w, r, s.anotherName())
		default:
			s.o.Console.ServeHTTP(w, r)
		}
	})
}

// anotherName refuses a request for a name that is not ours.
func (s *Server) anotherName() error {
	e := &runtime.Error{Code: runtime.CodeMisdirected, Msg: "the request names another host", Hint: "use the address that kimbap printed at its start"}
	if !s.o.Nameless {
		e.Hint += ", or have the name put into serve.hosts of its config.yaml"
	}
	return e
}

// NewConsole is a listener for the console alone, with nothing else of the API.
func NewConsole(o Options) (*Server, error) {
	if o.Console == nil {
		return nil, errors.New("server: Options.Console is required")
	}
	s := newServer(o)
	s.pages = "kimbap console printed where the page for browsers is"
	r := chi.NewRouter()
	r.Use(s.guard)
	r.NotFound(s.handle(func(http.ResponseWriter, *http.Request) error { return s.noPage() }))
	s.listen(r)
	return s, nil
}

// guard refuses what a browser may have been made to send, and names that another
// machine may have been given.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set(requestID, runtime.NewID("req", s.o.Clock()))
		switch {
		case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
			s.problem(w, r, &runtime.Error{Code: runtime.CodeForbidden, Msg: "pages of a browser are not served here", Hint: "call it from a program"})
		case s.o.RequireToken && !s.ourName(r):
			s.problem(w, r, s.anotherName())
		case !plain(r):
			s.problem(w, r, s.noPage())
		default:
			if r.Method == http.MethodHead { // is answered as GET, by the same page; net/http leaves the body out (RFC 9110 section 9.3.2)
				chi.RouteContext(r.Context()).RouteMethod = http.MethodGet
			}
			next.ServeHTTP(w, r)
		}
	})
}

// ourName reports whether the Host of a request is an address, localhost or a name
// that was configured: one that somebody else's DNS answers is none of them.
func (s *Server) ourName(r *http.Request) bool {
	host, _ := runtime.SplitAuthority(r.Host)
	for _, name := range append([]string{"localhost"}, s.o.Hosts...) {
		if strings.EqualFold(host, name) {
			return true
		}
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}
