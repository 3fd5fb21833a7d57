package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

// account is a record of a request as it is told to a person.
type account struct {
	Kind    string         `json:"kind"`
	Time    time.Time      `json:"time"`
	ID      string         `json:"id"`
	Surface string         `json:"surface"`
	Tenant  string         `json:"tenant"`
	Who     string         `json:"principal"`
	Agent   string         `json:"agent"`
	Roles   []string       `json:"roles"`
	Run     string         `json:"run"`
	Action  string         `json:"action"`
	Risk    string         `json:"risk"`
	Scheme  string         `json:"scheme"`
	Method  string         `json:"method"`
	Host    string         `json:"host"`
	Path    string         `json:"path"`
	Args    map[string]any `json:"args"`
	Query   map[string]any `json:"query"`
	Body    string         `json:"body"`
	Effect  string         `json:"effect"`
	Rule    string         `json:"rule"`
	Would   string         `json:"would"`
	WouldBy string         `json:"would_rule"`

	Credential string   `json:"credential"`
	Version    int      `json:"credential_version"`
	Used       string   `json:"credential_used"`
	Approval   string   `json:"approval"`
	By         string   `json:"decided_by"`
	Presence   string   `json:"presence"`
	Result     string   `json:"result"`
	Code       string   `json:"code"`
	Reason     string   `json:"reason"`
	Stage      string   `json:"stage"`
	Message    string   `json:"message"`
	Status     int      `json:"status"`
	BytesIn    int64    `json:"bytes_in"`
	BytesOut   int64    `json:"bytes_out"`
	Micros     int64    `json:"duration_us"`
	Address    string   `json:"address"`
	Scrubbed   int      `json:"scrubbed"`
	Unscanned  bool     `json:"unscanned"`
	Changed    []string `json:"changed"`
}

// explainRequest tells what the records of a request that was made say: as they
// are with -o, else as an account of it.
func (c *cli) explainRequest(ctx context.Context, a *app.App, id string) error {
	_, done := c.working("searching the trail")
	records, err := a.SearchTrail(ctx, app.RecordQuery{RequestID: id})
	done()
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return missing("kimbap audit tail", "the trail has no request %q", id)
	}
	list, told := []json.RawMessage{}, make([]account, len(records))
	for _, r := range slices.Backward(records) {
		if err := json.Unmarshal(r.Line, &told[len(list)]); err != nil {
			return err
		}
		list = append(list, json.RawMessage(r.Line))
	}
	return c.show(list, func() { c.sayRequest(told) })
}

// sayRequest tells of a request once, and then how it ended.
func (c *cli) sayRequest(records []account) {
	line := func(name, format string, a ...any) {
		fmt.Fprintf(c.out, "%-11s %s\n", name, printable(fmt.Sprintf(format, a...)))
	}
	for i := range records {
		r := &records[i]
		if r.Kind != "outcome" {
			c.sayAsked(r, line)
		}
		switch {
		case r.Kind == "intent" && i == len(records)-1:
			line("outcome", "none yet: it is under way, or its process died")
		case r.Kind != "intent":
			sayEnd(r, line)
		}
	}
	line("", "all members: %s -o json", runtime.Command(runtime.Tenant(records[0].Tenant), "explain "+records[0].ID))
}

func (c *cli) sayAsked(r *account, line func(string, string, ...any)) {
	line("request", "%s, %s", r.ID, r.Time.Local().Format(time.DateTime))
	if r.Who != "" {
		line("by", "%s (%s) of tenant %s, by %s", r.Agent, strings.Join(append([]string{r.Who}, r.Roles...), ", "), r.Tenant, r.Surface)
	} else {
		line("by", "a caller that is not known, by %s", r.Surface)
	}
	if r.Run != "" {
		line("run", "%s", r.Run)
	}
	if r.Host != "" {
		line("to", "%s %s://%s%s", r.Method, r.Scheme, r.Host, r.Path)
	}
	if r.Action != "" {
		line("action", "%s, risk %s", r.Action, orWord(r.Risk, "not known"))
	}
	for _, group := range []map[string]any{r.Args, r.Query} {
		for _, name := range slices.Sorted(maps.Keys(group)) {
			text, _ := json.Marshal(group[name])
			line("", "%s = %s", name, text)
		}
	}
	if r.Body != "" {
		line("body", "%s", r.Body)
	}
	if r.Rule != "" {
		line("verdict", "%s by %s", r.Effect, r.Rule)
	}
	if r.Would != "" {
		line("", "mode: report; else %s by %s", r.Would, cmp.Or(r.WouldBy, r.Rule))
	}
	if r.Credential != "" {
		line("credential", "%s", r.Credential)
	}
}

// sayEnd tells how it ended.
func sayEnd(r *account, line func(string, string, ...any)) {
	switch {
	case r.Version > 0:
		line("used", "%s, version %d", orWord(r.Used, "none"), r.Version)
	case r.Used == string(runtime.CredentialWithheld):
		line("used", "none: a web page of another origin asked")
	case r.Used != "":
		line("used", "%s", r.Used)
	}
	if r.Approval != "" {
		text := r.Approval
		if r.By != "" {
			text += ", accepted by " + r.By + " (presence " + orWord(r.Presence, "none") + ")"
		}
		line("approval", "%s", text)
	}
	switch {
	case r.Result == "unknown":
		line("outcome", "unknown: its process died before it could say")
		return
	case r.Code != "":
		code := r.Code
		if r.Reason != "" {
			code += " (" + r.Reason + ")"
		}
		line("outcome", "%s at %s: %s", code, orWord(r.Stage, "no stage"), r.Message)
	default:
		line("outcome", "%s", r.Result)
	}
	if r.Status > 0 {
		line("answer", "%d, %s in, %s out", r.Status, runtime.Count(r.BytesIn, "byte"), runtime.Count(r.BytesOut, "byte"))
	}
	if r.Address != "" {
		line("address", "%s", r.Address)
	}
	if r.Micros > 0 {
		line("took", "%s", time.Duration(r.Micros)*time.Microsecond)
	}
	if r.Scrubbed > 0 {
		line("masked", "the credential, %s in the answer", runtime.Count(r.Scrubbed, "time"))
	}
	if r.Unscanned {
		line("", "the answer could not be looked through for the credential")
	}
	if len(r.Changed) > 0 {
		line("changed", "%s", strings.Join(r.Changed, ", "))
	}
}

func orWord(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
