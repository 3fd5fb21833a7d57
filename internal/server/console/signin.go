package console

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// What is recorded of sessions.
const (
	signedIn  = "console.sign_in"
	signedOut = "console.sign_out"
)

// signInPage shows the button of a link, or asks for a link or a token. Nothing happens with
// the page alone: programs that look at links, as those of mail do, would use the link up.
func (c *Console) signInPage(w http.ResponseWriter, r *http.Request) error {
	c.renew()
	_, err := r.Cookie(unsentName)
	unsent := err == nil
	if unsent {
		http.SetCookie(w, c.unsent(-1))
	}
	c.render(w, http.StatusOK, "sign-in", view{Title: "Sign in", Data: map[string]any{
		"Code": r.URL.Query().Get("code"), "Next": c.next(r.URL.Query().Get("next")), "ByLink": c.o.Owner != nil, "Unsent": unsent,
	}})
	return nil
}

// unsentName is the cookie of a browser whose form was not taken, since its session had ended.
const unsentName = "kimbap-unsent"

// unsent has the sign-in page say so, once, within so many seconds; a negative number takes it back.
func (c *Console) unsent(seconds int) *http.Cookie {
	return &http.Cookie{
		Name: unsentName, Value: "1", Path: c.o.Base + "sign-in", MaxAge: seconds, HttpOnly: true, Secure: c.o.Secure, SameSite: http.SameSiteStrictMode,
	}
}

// longestQuery is how much of the filters of the trail is kept over a sign-in, in bytes.
const longestQuery = 2000

// toSignIn leads there, and back to the page that was asked for.
func (c *Console) toSignIn(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		http.SetCookie(w, c.unsent(60))
	}
	to := c.o.Base + "sign-in"
	if r.URL.Path != c.o.Base {
		to += "?next=" + url.QueryEscape(c.pageOf(r))
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// pageOf is the page that a request asks for or, of a form, the one that it stands on.
func (c *Console) pageOf(r *http.Request) string {
	name := strings.TrimPrefix(r.URL.Path, c.o.Base)
	if parts := strings.Split(name, "/"); r.Method == http.MethodPost && len(parts) == 3 {
		name = parts[0]
		if name == "approvals" && parts[2] != "revoke" { // that one stands in the list
			name += "/" + parts[1]
		}
	}
	if name == "trail" && r.URL.RawQuery != "" {
		name += "?" + r.URL.RawQuery
	}
	return c.next(name)
}

// next is a page of ours that a sign-in goes on with: never one of somebody else, in no
// spelling that a browser would take for another path. That of the trail may have its filters.
func (c *Console) next(name string) string {
	if query, is := strings.CutPrefix(name, "trail?"); is {
		if q, err := url.ParseQuery(query); err == nil && len(query) <= longestQuery {
			return "trail?" + q.Encode()
		}
		return "trail"
	}
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/"
	for _, at := range []string{"approvals", "trail", "tokens"} {
		if rest, ok := strings.CutPrefix(name, at); ok && (rest == "" || strings.HasPrefix(rest, "/")) && strings.Trim(rest, plain) == "" && !strings.Contains(rest, "//") {
			return name
		}
	}
	return "approvals"
}

// signIn begins a session, once it stands in the trail.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) error {
	caller, err := c.shown(r)
	if err != nil {
		c.renew()
		return err
	}
	who, err := c.o.Desk.Enter(r.Context(), caller)
	if err == nil {
		err = c.o.Desk.Note(r.Context(), who, signedIn, source(r))
	}
	if err != nil {
		c.told("") // the link is used up
		return err
	}
	http.SetCookie(w, c.cookie(c.sessions.begin(caller, who.Owner())))
	c.told(source(r))
	http.Redirect(w, r, c.o.Base+c.next(r.PostFormValue("next")), http.StatusSeeOther)
	return nil
}

// shown is who a sign-in shows to be: whoever has the link, or the token.
func (c *Console) shown(r *http.Request) (runtime.Caller, error) {
	if c.o.Owner == nil {
		token := runtime.NewSecret(strings.TrimSpace(r.PostFormValue("token")))
		return runtime.Caller{Token: token, RequireToken: true, Source: source(r)}, nil
	}
	code := strings.TrimSpace(r.PostFormValue("code"))
	if _, pasted, ok := strings.Cut(code, "code="); ok { // the whole link
		code = pasted
	}
	if !c.sessions.redeem(code) {
		return runtime.Caller{}, &runtime.Error{
			Code: runtime.CodeUnauthenticated, Msg: "the link was used, or is too old",
			Hint: "open the newest link: kimbap console prints one in its terminal whenever the last one opens nothing any more",
		}
	}
	return *c.o.Owner, nil
}

// renew has a link printed when the one that is out is too old: whose session has ended is
// not to end those of others for a new one.
func (c *Console) renew() {
	if c.sessions.stale() {
		c.told("")
	}
}

func (c *Console) told(source string) {
	if c.o.SignedIn != nil {
		c.o.SignedIn(source)
	}
}

// signOut ends the session, here and in the browser.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request, v visit) error {
	c.sessions.end(v.session)
	http.SetCookie(w, c.cookie(""))
	err := c.o.Desk.Note(context.WithoutCancel(r.Context()), v.who, signedOut, source(r))
	if err != nil {
		return err
	}
	http.Redirect(w, r, c.o.Base+"sign-in", http.StatusSeeOther)
	return nil
}

// source is the address that a request comes from, without its port.
func source(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}
