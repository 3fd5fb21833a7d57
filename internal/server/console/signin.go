package console

import (
	"context"
	"net"
	"net/http"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// What is recorded of sessions.
const (
	signedIn  = "console.sign_in"
	signedOut = "console.sign_out"
)

// signInPage shows the button of a link, or asks for a token. Nothing happens with the
// page alone: programs that look at links, as those of mail do, would use the link up.
func (c *Console) signInPage(w http.ResponseWriter, r *http.Request) error {
	c.render(w, http.StatusOK, "sign-in", view{Title: "Sign in", Data: map[string]any{
		"Code": r.URL.Query().Get("code"), "Next": c.next(r.URL.Query().Get("next")), "ByLink": c.o.Owner != nil,
	}})
	return nil
}

// toSignIn leads there, and back to the page that was asked for.
func (c *Console) toSignIn(w http.ResponseWriter, r *http.Request) {
	to := c.o.Base + "sign-in"
	if r.Method == http.MethodGet && r.URL.Path != c.o.Base {
		to += "?next=" + strings.TrimPrefix(r.URL.EscapedPath(), c.o.Base)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// next is a page of ours that a sign-in goes on with: never one of somebody else.
func (c *Console) next(name string) string {
	for _, at := range []string{"approvals", "trail", "tokens"} {
		if rest, ok := strings.CutPrefix(name, at); ok && (rest == "" || strings.HasPrefix(rest, "/")) && !strings.ContainsAny(rest, `.\?#:`) {
			return name
		}
	}
	return "approvals"
}

// signIn begins a session, once it stands in the trail.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) error {
	caller, err := c.shown(r)
	if err != nil {
		return err
	}
	who, err := c.o.Desk.Enter(r.Context(), caller)
	if err == nil {
		err = c.o.Desk.Note(r.Context(), who, signedIn, source(r))
	}
	if err != nil {
		return err
	}
	http.SetCookie(w, c.cookie(c.sessions.begin(caller)))
	if c.o.SignedIn != nil {
		c.o.SignedIn(source(r))
	}
	http.Redirect(w, r, c.o.Base+c.next(r.PostFormValue("next")), http.StatusSeeOther)
	return nil
}

// shown is who a sign-in shows to be: whoever has the link, or the token.
func (c *Console) shown(r *http.Request) (runtime.Caller, error) {
	if c.o.Owner == nil {
		token := runtime.NewSecret(strings.TrimSpace(r.PostFormValue("token")))
		return runtime.Caller{Token: token, RequireToken: true, Source: source(r)}, nil
	}
	if !c.sessions.redeem(r.PostFormValue("code")) {
		return runtime.Caller{}, &runtime.Error{
			Code: runtime.CodeUnauthenticated, Msg: "the link was used, or is too old",
			Hint: "open the newest link that kimbap console printed, or start it again",
		}
	}
	return *c.o.Owner, nil
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
