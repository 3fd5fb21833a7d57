package console

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// refresh is how often the list of what waits is asked for again. Somebody is taken to look
// at it for three times as long.
const refresh = 3 * time.Second

// How many stand on the page: of what waits, and below it of what has ended.
const (
	waitingMost = 50
	recent      = 20
)

// lasting are the times that a yes can be given for, beside this once.
var lasting = []time.Duration{10 * time.Minute, time.Hour, 8 * time.Hour}

// approvals lists what waits for a decision, and asks for it again by itself.
func (c *Console) approvals(w http.ResponseWriter, r *http.Request, v visit) error {
	waiting, err := c.o.Desk.Waiting(r.Context(), v.who, waitingMost+1, 3*refresh)
	if err != nil {
		return err
	}
	decided, err := c.o.Desk.Decided(r.Context(), v.who, recent)
	if err != nil {
		return err
	}
	standing, err := c.o.Desk.Standing(r.Context(), v.who)
	sealed := ""
	if e := runtime.AsError(err); err != nil && (e.Code == runtime.CodeVaultLocked || e.Reason == runtime.ReasonTampered) {
		sealed = e.Msg // what waits can be seen, and rejected, all the same
	} else if err != nil {
		return err
	}
	title, more := "Approvals", len(waiting) > waitingMost
	if more {
		waiting = waiting[:waitingMost]
		title = "(" + strconv.Itoa(waitingMost) + "+) " + title
	} else if len(waiting) > 0 {
		title = "(" + strconv.Itoa(len(waiting)) + ") " + title
	}
	return c.show(w, v, "approvals", view{Title: title, Tab: "approvals", Refresh: c.again(r), Data: map[string]any{
		"Waiting": waiting, "More": more, "Decided": decided, "Standing": standing, "Sealed": sealed,
	}})
}

// again is after how many seconds a request for a page is made again by itself; 0: never.
func (c *Console) again(r *http.Request) int {
	if r.Method != http.MethodGet || r.URL.Path != c.o.Base+"approvals" || r.URL.Query().Get("reload") == "off" {
		return 0
	}
	return int(refresh.Seconds())
}

// approval shows one of them, whole, and asks. Where a PIN is demanded, who decides by a token, which
// has none, names a person.
func (c *Console) approval(w http.ResponseWriter, r *http.Request, v visit) error {
	q, err := c.o.Desk.Question(r.Context(), v.who, r.PathValue("id"))
	if err != nil {
		return err
	}
	var spans []string
	for _, d := range lasting {
		if q.Several == 0 { // a yes of several is for once
			spans = append(spans, runtime.Span(d))
		}
	}
	lines := slices.DeleteFunc(strings.SplitAfter(q.Text, "\n"), func(line string) bool { return line == "" })
	return c.show(w, v, "approval", view{Title: q.Action, Tab: "approvals", Data: map[string]any{
		"Q": q, "Lines": lines, "Spans": spans, "Named": q.PIN && v.who.TokenID != "",
	}})
}

// accept takes a yes. What it allows beyond this once is one of what the form offers.
func (c *Console) accept(w http.ResponseWriter, r *http.Request, v visit) error {
	d := Decision{Accept: true, Whole: r.PostFormValue("whole") == "yes", As: r.PostFormValue("as"), PIN: runtime.NewSecret(r.PostFormValue("pin"))}
	switch also := r.PostFormValue("also"); also {
	case "", "once":
	case "run":
		d.Run = true
	default:
		at := slices.IndexFunc(lasting, func(d time.Duration) bool { return runtime.Span(d) == also })
		if at < 0 {
			return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "the form offers no such time", Hint: "choose one of those that it shows"}
		}
		d.For = lasting[at]
	}
	return c.decided(w, r, v, d)
}

// reject takes a no, with a word for who asked.
func (c *Console) reject(w http.ResponseWriter, r *http.Request, v visit) error {
	return c.decided(w, r, v, Decision{Note: r.PostFormValue("reason")})
}

func (c *Console) decided(w http.ResponseWriter, r *http.Request, v visit, d Decision) error {
	id := r.PathValue("id")
	if _, err := c.o.Desk.Decide(r.Context(), v.who, id, d); err != nil {
		return err
	}
	http.Redirect(w, r, c.o.Base+"approvals/"+id, http.StatusSeeOther)
	return nil
}

// endStanding ends what an earlier yes still allows.
func (c *Console) endStanding(w http.ResponseWriter, r *http.Request, v visit) error {
	if err := c.o.Desk.EndStanding(r.Context(), v.who, r.PathValue("id")); err != nil {
		return err
	}
	http.Redirect(w, r, c.o.Base+"approvals", http.StatusSeeOther)
	return nil
}
