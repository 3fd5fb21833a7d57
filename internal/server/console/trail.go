package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// trailPage is how many records a page of the trail has.
const trailPage = 100

// sinces are the choices of how far back to look.
var sinces = []struct {
	Name  string
	Since time.Duration
}{{"1h", time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}, {"all", 0}}

// entry is what a page shows of a record; Whole is all of it.
type entry struct {
	Kind      string    `json:"kind"`
	Time      time.Time `json:"time"`
	ID        string    `json:"id"`
	Agent     string    `json:"agent"`
	Principal string    `json:"principal"`
	Action    string    `json:"action"`
	Event     string    `json:"event"`
	Effect    string    `json:"effect"`
	Host      string    `json:"host"`
	Status    int       `json:"status"`
	Code      string    `json:"code"`
	Whole     string    `json:"-"`
}

// What names what it was: an action, an event.
func (e entry) What() string {
	if e.Event != "" {
		return e.Event
	}
	return e.Action
}

// trail lists records, the newest first, and all of one request.
func (c *Console) trail(w http.ResponseWriter, r *http.Request, v visit) error {
	q := r.URL.Query()
	f, err := c.filter(q)
	if err != nil {
		return err
	}
	records, err := c.o.Desk.Records(r.Context(), v.who, f, q.Get("after"), trailPage+1)
	if err != nil {
		return err
	}
	older, newest := template.URL(""), template.URL("") // else their "=" and "&" were escaped, and older led to the newest again
	if q.Has("after") {
		newest = template.URL(without(q, "after").Encode())
	}
	if len(records) > trailPage {
		records = records[:trailPage]
		q.Set("after", records[trailPage-1].Key)
		older = template.URL(q.Encode())
	}
	var entries []entry
	for _, record := range records {
		e, err := read(record)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	return c.show(w, v, "trail", view{Title: "Trail", Tab: "trail", Data: map[string]any{
		"Entries": entries, "Older": older, "Newest": newest, "Newer": q.Has("after"), "Filter": f, "Since": q.Get("since"), "Sinces": sinces, "Filtered": filtered(q),
		"Kinds": runtime.RecordWords("kind"), "Effects": runtime.RecordWords("effect"), "Codes": runtime.RecordWords("code"),
	}})
}

// filter is what a query selects. What it cannot say is refused: a page that passed over it would
// pass for all that there is.
func (c *Console) filter(q url.Values) (Filter, error) {
	f := Filter{
		Action: q.Get("action"), Agent: q.Get("agent"), Host: q.Get("host"), Kind: q.Get("kind"), Effect: q.Get("effect"), Code: q.Get("code"),
		Request: q.Get("request"), Text: q.Get("text"),
	}
	for name, value := range map[string]string{"kind": f.Kind, "effect": f.Effect, "code": f.Code} {
		if known := runtime.RecordWords(name); value != "" && !slices.Contains(known, value) {
			return f, noSuch(name, value, known)
		}
	}
	since := cmp.Or(q.Get("since"), "all")
	var known []string
	for _, s := range sinces {
		if known = append(known, s.Name); s.Name == since && s.Since > 0 {
			f.Since = c.o.Clock().Add(-s.Since)
		}
	}
	if !slices.Contains(known, since) {
		return f, noSuch("since", since, known)
	}
	return f, nil
}

func noSuch(name, value string, known []string) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%s cannot be %.40q", name, value), Hint: name + " is one of " + strings.Join(known, ", ")}
}

// without is a query that lacks one name.
func without(q url.Values, name string) url.Values {
	out := maps.Clone(q)
	out.Del(name)
	return out
}

// filtered reports whether a query leaves anything out.
func filtered(q url.Values) bool {
	for name := range q {
		if q.Get(name) != "" && name != "after" {
			return true
		}
	}
	return false
}

// read is what a page shows of a record.
func read(record Record) (entry, error) {
	var e entry
	if err := json.Unmarshal(record.Line, &e); err != nil {
		return entry{}, err
	}
	var whole bytes.Buffer
	if err := json.Indent(&whole, record.Line, "", "  "); err != nil {
		return entry{}, err
	}
	e.Whole, e.Principal = whole.String(), cmp.Or(record.By, e.Principal)
	return e, nil
}
