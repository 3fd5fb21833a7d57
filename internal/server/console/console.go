package console

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Options are what a console is made of.
type Options struct {
	Desk   Desk                // required
	Status func(err error) int // of an error in HTTP; required
	Base   string              // where its pages are: it begins and ends with a slash; required
	Secure bool                // browsers reach the server over TLS alone
	Origin string              // the only one that it has in a browser, as "https://kimbap.example.com"; "": that of the host which a request names

	// Owner is whom a link of [Console.Invite] signs in; nil: nobody, and a token is asked for.
	Owner *runtime.Caller
	// SignedIn is told after each sign-in, with the address that it came from, and with ""
	// when somebody wants to sign in and the last link opens nothing any more. May be nil.
	SignedIn func(source string)
	Failed   func(status int, err error)                   // told what was refused, for the log; may be nil
	Keep     func(ctx context.Context, owner string) error // lets a connection stay, since its owner is known; may be nil
	Clock    func() time.Time                              // nil: that of the machine
}

// Console answers under [Options.Base], on a server that has looked at the name it is called
// by (Host). It is safe for concurrent use.
type Console struct {
	o        Options
	mux      *http.ServeMux
	sessions *sessions
	pages    pages
}

// New checks the options and reads the pages.
func New(o Options) (*Console, error) {
	if o.Desk == nil || o.Status == nil {
		return nil, errors.New("console: Options.Desk and Status are required")
	}
	if !strings.HasPrefix(o.Base, "/") || !strings.HasSuffix(o.Base, "/") {
		return nil, errors.New("console: Options.Base begins and ends with a slash")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	pages, err := readPages(o.Clock)
	if err != nil {
		return nil, err
	}
	c := &Console{o: o, pages: pages, sessions: newSessions(o.Clock)}
	c.mux = c.routes()
	return c, nil
}

// Base is where the pages are.
func (c *Console) Base() string { return c.o.Base }

// Invite makes a link, below the address of the server, that signs the owner in once. The
// one before it opens nothing any more. Without [Options.Owner] it leads to the form for a token.
func (c *Console) Invite() string {
	if c.o.Owner == nil {
		return c.o.Base
	}
	return c.o.Base + "sign-in?code=" + c.sessions.invite()
}

// Hidden is a base that nobody can guess. A browser sends a cookie to every port of a host
// (RFC 6265 section 8.5): at a known path a page of another program on this machine would
// be sent the session, and could use it.
func Hidden() string {
	var name [16]byte
	_, _ = rand.Read(name[:]) // never fails since Go 1.24
	return "/console-" + base64.RawURLEncoding.EncodeToString(name[:]) + "/"
}

// routes are all pages.
func (c *Console) routes() *http.ServeMux {
	mux := http.NewServeMux()
	get := func(path string, p page) { mux.HandleFunc("GET "+c.o.Base+path, c.handle(p)) }
	post := func(path string, p page) { mux.HandleFunc("POST "+c.o.Base+path, c.handle(ownForm(p))) }
	mux.HandleFunc("GET "+c.o.Base+"console.css", style)
	get("sign-in", c.signInPage)
	post("sign-in", c.signIn)
	get("{$}", c.in(c.first))
	post("sign-out", c.in(c.signOut))
	get("approvals", c.in(c.approvals))
	get("approvals/{id}", c.in(c.approval))
	post("approvals/{id}/accept", c.in(c.accept))
	post("approvals/{id}/reject", c.in(c.reject))
	post("approvals/{id}/revoke", c.in(c.endStanding))
	get("trail", c.in(c.trail))
	get("tokens", c.in(c.tokens))
	get("tokens/{id}/revoke", c.in(c.askRevoke))
	post("tokens/{id}/revoke", c.in(c.revoke))
	get("", c.in(func(http.ResponseWriter, *http.Request, visit) error { return noPage() }))
	return mux
}

// first leads to the page that people come for.
func (c *Console) first(w http.ResponseWriter, r *http.Request, _ visit) error {
	http.Redirect(w, r, c.o.Base+"approvals", http.StatusSeeOther)
	return nil
}

func noPage() error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "there is no such page", Hint: "go to the approvals"}
}
