package console

import (
	"bytes"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
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
	f := Filter{Action: q.Get("action"), Agent: q.Get("agent"), Host: q.Get("host"), Effect: q.Get("effect"), Request: q.Get("request"), Text: q.Get("text")}
	for _, s := range sinces {
		if s.Name == q.Get("since") && s.Since > 0 {
			f.Since = c.o.Clock().Add(-s.Since)
		}
	}
	records, err := c.o.Desk.Records(r.Context(), v.who, f, q.Get("after"), trailPage+1)
	if err != nil {
		return err
	}
	older := template.URL("") // else its "=" and "&" were escaped, and the link led to the newest again
	if len(records) > trailPage {
		records = records[:trailPage]
		q.Set("after", records[trailPage-1].Key)
		older = template.URL(q.Encode())
	}
	var entries []entry
	for _, record := range records {
		e, err := read(record.Line)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	return c.show(w, v, "trail", view{Title: "Trail", Tab: "trail", Data: map[string]any{
		"Entries": entries, "Older": older, "Filter": f, "Since": q.Get("since"), "Sinces": sinces, "Filtered": filtered(q),
		"Effects": []runtime.Effect{runtime.EffectAllow, runtime.EffectDeny, runtime.EffectAsk},
	}})
}

// filtered reports whether a query leaves anything out.
func filtered(q url.Values) bool {
	for name := range q {
		if q.Get(name) != "" {
			return true
		}
	}
	return false
}

// read is what a page shows of a line of the trail.
func read(line []byte) (entry, error) {
	var e entry
	if err := json.Unmarshal(line, &e); err != nil {
		return entry{}, err
	}
	var whole bytes.Buffer
	if err := json.Indent(&whole, line, "", "  "); err != nil {
		return entry{}, err
	}
	e.Whole = whole.String()
	return e, nil
}
