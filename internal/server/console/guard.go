package console

import (
	"crypto/subtle"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// visit is a request of somebody who has signed in.
type visit struct {
	who     runtime.Principal
	session *session
}

// page answers a request, of a visit or of anybody.
type (
	page      func(w http.ResponseWriter, r *http.Request) error
	visitPage func(w http.ResponseWriter, r *http.Request, v visit) error
)

// maxForm bounds a form that is sent back, in bytes.
const maxForm = 64 << 10

// protect are the fields of every answer. No script runs, nothing is loaded from anywhere
// else, no page embeds this one, and nothing is kept. The Referrer-Policy is not
// no-referrer: with that a browser says "Origin: null" even to ourselves.
var protect = map[string]string{
	"Content-Security-Policy":      "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// ServeHTTP answers under the base: first whether the path is written in its only form, then
// whether the browser was led here by somebody else, then who has signed in.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range protect {
		w.Header().Set(name, value)
	}
	switch {
	case !c.plain(r):
		c.refuse(w, r, noPage())
	case c.foreign(r) && arrives(r):
		c.arrive(w, r)
	case c.foreign(r):
		c.refuse(w, r, &runtime.Error{Code: runtime.CodeForbidden, Msg: "another page sent this", Hint: "open the console itself, and do it there"})
	default:
		c.mux.ServeHTTP(w, r)
	}
}

// plain reports whether a path is written in its only form. Of another one the router makes
// a redirect, which may lead out of the console.
func (c *Console) plain(r *http.Request) bool {
	p := r.URL.Path
	return r.URL.RawPath == "" && (p == c.o.Base || path.Clean(p) == p) && !strings.ContainsAny(p, ";\\\x00")
}

// foreign reports whether a page of another origin has made the browser ask (Fetch Metadata,
// and the Origin of RFC 6454 where a browser is older than that).
func (c *Console) foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return true
	}
	return r.Header.Get("Origin") != "" && !c.ownOrigin(r)
}

// ownOrigin reports whether the Origin of a request is the one that is configured or, without
// one, that which it is sent to. Of the scheme only what we know is then held against it: where
// TLS ends in front of us it is https.
func (c *Console) ownOrigin(r *http.Request) bool {
	if c.o.Origin != "" {
		return r.Header.Get("Origin") == c.o.Origin
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host == r.Host && (origin.Scheme == "https" || origin.Scheme == "http" && !c.o.Secure)
}

// arrives reports whether somebody follows a link to here, as from a message.
func arrives(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Origin") == "" &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// arrive has the browser ask again, by itself: to what a link of another site leads it sends
// no cookie of ours (SameSite=Strict), and nothing is shown for one.
func (c *Console) arrive(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Refresh", "0; url="+r.URL.RequestURI())
	c.render(w, http.StatusOK, "arrive", view{Title: "kimbap", Data: r.URL.RequestURI()})
}

// ownForm lets pass only a form that one of our own pages sent: besides what ServeHTTP has
// looked at there must be a sign of it. A browser sends one of the two with every form.
func ownForm(next page) page {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") != "same-origin" {
			return &runtime.Error{Code: runtime.CodeForbidden, Msg: "the request does not say that a page of this console sent it", Hint: "use a browser here, and the REST API in programs"}
		}
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
			return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonUnsupportedMedia, Msg: "this is no form of the console", Hint: "use a browser here, and the REST API in programs"}
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); errors.Is(err, os.ErrDeadlineExceeded) {
			return &runtime.Error{Code: runtime.CodeTimeout, Reason: runtime.ReasonRequestTimeout, Msg: "the form did not arrive in time", Hint: "go back and send it again", Err: err}
		} else if err != nil {
			return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "the form cannot be read", Hint: "go back and send it again; it has 64 KiB at most", Err: err}
		}
		return next(w, r)
	}
}

// in is a page for who has signed in; others are led to do so. A form of a session has its
// value, which no other page can read or guess.
func (c *Console) in(next visitPage) page {
	return func(w http.ResponseWriter, r *http.Request) error {
		s := c.sessions.of(r, c.cookieName())
		if s == nil {
			c.toSignIn(w, r)
			return nil
		}
		who, err := c.o.Desk.Enter(r.Context(), s.caller)
		if err != nil {
			if code := runtime.CodeOf(err); code == runtime.CodeUnauthenticated || code == runtime.CodeForbidden {
				c.sessions.end(s) // what fails otherwise says nothing of who it is
			}
			return err
		}
		if c.o.Keep != nil {
			if err := c.o.Keep(r.Context(), who.Owner()); err != nil {
				return err
			}
		}
		if r.Method == http.MethodPost && subtle.ConstantTimeCompare([]byte(r.PostFormValue("form")), []byte(s.form)) != 1 {
			return &runtime.Error{Code: runtime.CodeForbidden, Msg: "the form is of another session", Hint: "open the page again, and send what it shows"}
		}
		return next(w, r, visit{who, s})
	}
}
