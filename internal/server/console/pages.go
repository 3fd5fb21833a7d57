package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

//go:embed view
var files embed.FS

// pages are the templates by their names, each with the frame around it.
type pages map[string]*template.Template

// view is what a template shows.
type view struct {
	Base    string
	Title   string
	Tab     string // the page of the bar at the top that is open
	Who     string // "": nobody has signed in
	Form    string // the value of the session's forms
	Refresh int    // seconds, after which the page is asked for again; 0: never
	Data    any
}

// readPages reads the templates. They escape for the place where a value stands
// (html/template), whoever wrote it.
func readPages(clock func() time.Time) (pages, error) {
	words := template.FuncMap{
		"at":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
		"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"within": func(t time.Time) string { return within(t.Sub(clock())) },
		"name":   func(who string) string { name, _ := parted(who); return name },
		"tail":   func(who string) string { _, tail := parted(who); return tail },
	}
	out := pages{}
	for _, name := range []string{"approvals", "approval", "trail", "tokens", "revoke", "sign-in", "arrive", "problem"} {
		t, err := template.New("frame.html").Funcs(words).ParseFS(files, "view/frame.html", "view/"+name+".html")
		if err != nil {
			return nil, err
		}
		out[name] = t
	}
	return out, nil
}

// parted is somebody as a table names them: of a token, "NAME (tok_…)" or "token:tok_…", the name
// and the end of the id, by which those of one name differ.
func parted(who string) (name, tail string) {
	name, id := "token", strings.TrimPrefix(who, "token:")
	if at := strings.LastIndex(who, " (tok_"); at >= 0 && strings.HasSuffix(who, ")") {
		name, id = who[:at], who[at+2:len(who)-1]
	}
	if !strings.HasPrefix(id, "tok_") || id == who {
		return who, ""
	}
	return name, "…" + id[max(len(id)-4, 0):]
}

// within says how far away a moment is, in one unit that is large enough.
func within(d time.Duration) string {
	form := "in %s"
	if d < 0 {
		d, form = -d, "%s ago"
	}
	switch {
	case d < time.Minute:
		return fmt.Sprintf(form, fmt.Sprintf("%d s", int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf(form, fmt.Sprintf("%d min", int(d.Minutes())))
	case d < 48*time.Hour:
		return fmt.Sprintf(form, fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60))
	}
	return fmt.Sprintf(form, fmt.Sprintf("%d days", int(d.Hours())/24))
}

// show renders a page of a visit.
func (c *Console) show(w http.ResponseWriter, v visit, name string, of view) error {
	of.Who, of.Form = "owner", v.session.form
	if v.who.TokenID != "" {
		of.Who = v.who.Agent
	}
	if v.who.Tenant != runtime.DefaultTenant {
		of.Who += " of " + string(v.who.Tenant)
	}
	c.render(w, http.StatusOK, name, of)
	return nil
}

// render writes a page whole, or says that it cannot be made. Characters that nobody sees
// are written out, see [seen].
func (c *Console) render(w http.ResponseWriter, status int, name string, of view) {
	of.Base = c.o.Base
	var out bytes.Buffer
	if err := c.pages[name].Execute(&out, of); err != nil {
		c.failed(http.StatusInternalServerError, err)
		http.Error(w, "the page cannot be shown; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, seen(out.String()))
}

// handle makes of a page that returns an error one that shows it. A panic is one.
func (c *Console) handle(next page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if broken := recover(); broken != nil {
				c.refuse(w, r, &runtime.Error{Code: runtime.CodeInternal, Msg: "the console failed", Hint: "see the log of the kimbap process", Err: fmt.Errorf("panic: %v", broken)})
			}
		}()
		if err := next(w, r); err != nil {
			c.refuse(w, r, err)
		}
	}
}

// refuse shows an error: what, why, and what to do.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := c.o.Status(err)
	c.failed(status, err)
	e := runtime.AsError(err)
	again := 0 // whoever watches has not left for what passes: a store that is away, too many requests
	if status >= http.StatusInternalServerError || status == http.StatusTooManyRequests {
		again = c.again(r)
	}
	back, label := c.wayOut(r, e)
	c.render(w, status, "problem", view{Title: "Refused", Refresh: again, Data: map[string]any{
		"Msg": e.Msg, "Hint": advice(e), "Code": string(e.Code), "Reason": string(e.Reason), "Back": back, "Label": label,
	}})
}

// wayOut is where a refusal leads, and what stands there: for who is not known, to the sign-in.
func (c *Console) wayOut(r *http.Request, e *runtime.Error) (to, label string) {
	switch {
	case e.Code == runtime.CodeUnauthenticated:
		next := c.pageOf(r)
		if r.URL.Path == c.o.Base+"sign-in" {
			next = c.next(r.PostFormValue("next"))
		}
		return "sign-in?next=" + url.QueryEscape(next), "Sign in"
	case r.Method == http.MethodPost:
		if back := c.pageOf(r); back != "approvals" {
			return back, "Go back"
		}
	}
	return "approvals", "Go to the approvals"
}

// advice is what to do, in a browser. [runtime.Error.Ask] is for programs that call the API.
func advice(e *runtime.Error) string {
	switch {
	case e.Code == runtime.CodeUnauthenticated && e.Reason != "": // which a link that is used up has not
		return "sign in with an operator's token; the owner makes one with: kimbap token create --agent NAME --scope GLOB --role " + runtime.RoleOperator
	case e.Reason == runtime.ReasonNotApprover, e.Reason == runtime.ReasonPresenceRequired && e.Ask != "": // a token, which has no PIN
		return `each who may decide chooses their own name under "Decide as", which stands there once they have a PIN: kimbap approve pin --as NAME`
	}
	return e.Hint
}

func (c *Console) failed(status int, err error) {
	if c.o.Failed != nil {
		c.o.Failed(status, err)
	}
}

// style is how all of it looks.
func style(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8") // whatever this machine calls a .css
	http.ServeFileFS(w, r, files, "view/console.css")
}
