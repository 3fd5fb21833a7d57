package chaos_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// judge compares what both ends saw with each other and with the trail.
func (w *world) judge(k *apptest.Kimbap) {
	w.t.Helper()
	trail := w.trail(k)
	w.mu.Lock() // upstreams may still hear of what was left
	defer w.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(w.all)) {
		x := w.all[id]
		wrong := append(x.wrongAnswer(), x.wrongRequest()...)
		wrong = append(wrong, x.wrongRecords(trail[id])...)
		for _, say := range wrong {
			w.t.Errorf("%s\n%s", say, x.dump(trail[id]))
		}
	}
	for _, what := range w.odd {
		w.t.Error(what)
	}
	for _, what := range w.hung {
		id, _, _ := strings.Cut(what, " ")
		w.t.Errorf("hung: %s", what)
		if x := w.all[id]; x != nil {
			w.t.Log(x.dump(trail[id]))
		}
	}
}

// trail is what was recorded of each exchange, once all of them have an end.
func (w *world) trail(k *apptest.Kimbap) map[string][]apptest.Record {
	out := map[string][]apptest.Record{}
	apptest.Within(w.t, patience, "an end for every intent", func() bool {
		clear(out)
		clear(w.recorded)
		open := map[uint64]string{}
		for _, r := range k.Records(w.t) {
			w.recorded[r.ID] = true
			id := r.Path[strings.LastIndexByte(r.Path, '/')+1:]
			switch {
			case r.Slot != "proxy" || r.Kind == "event":
			case r.Kind == "outcome":
				id = open[r.Intent]
				delete(open, r.Intent)
				out[id] = append(out[id], r)
			default:
				if r.Kind == "intent" {
					open[r.Seq] = id
				}
				out[id] = append(out[id], r)
			}
		}
		return len(open) == 0
	})
	return out
}

// cut reports whether the client ended its connection, or its half.
func (x *exchange) cut() bool {
	return x.left || errors.Is(x.err, errLeft) || x.q.leaves == halfClose || x.severed
}

// wrongAnswer is what is wrong with what the client got.
func (x *exchange) wrongAnswer() (out []string) {
	wrong := func(format string, args ...any) { out = append(out, x.q.id+": "+fmt.Sprintf(format, args...)) }
	if x.status == 0 || problem(x.header) {
		return nil
	}
	var at *attempt
	for _, one := range x.attempts {
		if fmt.Sprint(one.n) == x.header.Get("X-Attempt") {
			at = one
		}
	}
	if x.header.Get("X-Answer") != x.q.id || at == nil {
		wrong("the client got the answer to %q", x.header.Get("X-Answer"))
		return out
	}
	if x.status != x.a.status {
		wrong("the status %d became %d", x.a.status, x.status)
	}
	want := masked(x.a.body)
	if x.bodiless() {
		want = nil
	}
	if !bytes.HasPrefix(want, x.body) && !bytes.Equal(masked(x.a.body[:min(len(x.body), len(x.a.body))]), x.body) { // a part of the credential is none
		n := common(want, x.body)
		wrong("the client got bytes that the upstream had not sent, from %d on: %q, not %q", n, x.body[n:min(n+60, len(x.body))], want[n:min(n+60, len(want))])
	}
	if x.a.reflects != "" && x.header.Get(x.a.reflects) != string(masked([]byte(at.header.Get("Authorization")))) {
		wrong("%s is %q", x.a.reflects, x.header.Get(x.a.reflects))
	}
	if !x.complete {
		return out
	}
	bare := x.bare(at)
	if (!at.done && !x.known(at) || len(x.body) != len(want)) && !bare {
		wrong("an answer of %d bytes, of which the upstream had sent %d (whole: %v), ends well after %d", len(want), at.sent, at.done, len(x.body))
	}
	if x.a.trailer && !x.bodiless() && x.trailer.Get("X-Sum") != x.q.id {
		wrong("the trailer is %q", x.trailer)
	}
	if !slices.Equal(x.interims, x.a.interim) {
		wrong("of the interim answers %v came %v", x.a.interim, x.interims)
	}
	return out
}

// bare reports whether nothing tells the answer that was broken off from a whole one.
func (x *exchange) bare(at *attempt) bool {
	return at.proto != "HTTP/2" && x.a.framing == byClose && at.broke && !at.reset && (x.plain || x.a.leaves == closes)
}

// known reports whether all of an answer was written, and the client can know it, although
// its end was not.
func (x *exchange) known(at *attempt) bool {
	if at == nil || !at.began {
		return false
	}
	sent := at.sent == len(x.a.body)
	ended := x.a.framing == byLength || x.a.trailer && x.trailer.Get("X-Sum") == x.q.id // which only its end brings
	return x.bodiless() || sent && ended
}

// common is how long the common beginning is.
func common(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// wrongRequest is what is wrong with what the upstream got.
func (x *exchange) wrongRequest() (out []string) {
	wrong := func(format string, args ...any) { out = append(out, x.q.id+": "+fmt.Sprintf(format, args...)) }
	for _, at := range x.attempts {
		if at.method != x.q.method || at.header.Get("X-Ask") != x.q.id {
			wrong("the upstream got %s with %q", at.method, at.header.Get("X-Ask"))
		}
		if got := strings.Join(at.header["Authorization"], "|"); got != "Bearer "+apptest.Key && !x.plain || got != "" && x.plain {
			wrong("the upstream got Authorization: %s", got)
		}
		if at.header["Proxy-Authorization"] != nil {
			wrong("the upstream got the token")
		}
		if !bytes.HasPrefix(x.q.body, at.body) {
			wrong("the upstream got bytes that the client had not sent, from %d on", common(x.q.body, at.body))
		}
		if at.whole && (len(at.body) != len(x.q.body) || !x.allOut && x.wrote < len(x.q.body)) {
			wrong("a request of %d bytes, of which %d were sent, ends well after %d", len(x.q.body), x.wrote, len(at.body))
		}
		if at.whole && !x.allOut && x.q.framing == byChunks && !x.ending {
			wrong("a request whose end was not sent ends well")
		}
		if at.whole && x.q.trailer && at.trailer.Get("X-Sum") != x.q.id {
			wrong("the upstream got the trailer %q", at.trailer)
		}
	}
	acted := x.acted()
	for i, at := range acted {
		if i+1 < len(acted) && !x.mayComeAgain(at) {
			wrong("sent again although it may not be")
		}
	}
	return out
}

// mayComeAgain reports whether the request may be sent again after an attempt that did
// reach the upstream.
func (x *exchange) mayComeAgain(at *attempt) bool {
	safe := x.q.method == http.MethodGet || x.q.method == http.MethodHead
	may := safe && len(x.q.body) == 0 && x.q.framing != byChunks && (x.plain || strings.HasPrefix(x.q.path, "/read/"))
	fresh := at.first && x.w.seed%2 == 0 // net/http takes one that was dialled for another for one that was kept
	return may && !fresh && (!at.began || at.reset || at.died && at.sent == 0)
}

// wrongRecords is what is wrong with what was recorded.
func (x *exchange) wrongRecords(trail []apptest.Record) (out []string) {
	wrong := func(format string, args ...any) { out = append(out, x.q.id+": "+fmt.Sprintf(format, args...)) }
	count := map[string]int{}
	var last apptest.Record
	for _, r := range trail {
		count[r.Kind]++
		last = r
		if r.Kind == "refusal" && r.Reason == "foreign_peer" && x.cut() {
			return out // it had left before the kernel could be asked whose it was
		}
		if agent := agentOf(r); agent != x.agent {
			wrong("recorded as of %q, not %q", agent, x.agent)
		}
	}
	if count["intent"] != count["outcome"] || count["intent"]+count["refusal"] > 1 {
		wrong("recorded as %v", count)
		return out
	}
	if len(x.attempts) > 0 && count["intent"] == 0 {
		wrong("it reached the upstream without an intent")
	}
	if x.status != 0 && len(trail) == 0 && !x.w.recorded[x.told().RequestID] { // without its path: nobody knew the caller
		wrong("it was answered and not recorded")
	}
	if len(trail) == 0 {
		return out
	}
	if problem(x.header) && x.complete && x.q.method != http.MethodHead {
		if told := x.told(); told.Code != last.Code || told.Reason != last.Reason {
			wrong("the client was told %+v", told)
		}
	}
	return append(out, x.wrongOutcome(last)...)
}

// wrongOutcome is what is not true of an outcome.
func (x *exchange) wrongOutcome(r apptest.Record) (out []string) {
	wrong := func(format string, args ...any) { out = append(out, x.q.id+": "+fmt.Sprintf(format, args...)) }
	up := x.last()
	got := x.status != 0 && !problem(x.header)
	bare := up != nil && x.bare(up)
	switch {
	case r.Result == "ok":
		if up == nil || !up.done && !bare && !x.known(up) {
			wrong("recorded as ok, but the upstream did not answer whole")
		}
		if !x.cut() && !x.complete && !x.hurried() {
			wrong("recorded as ok, but the client did not get it whole: %v", x.err)
		}
		if r.Status != x.a.status {
			wrong("recorded with the status %d", r.Status)
		}
	case r.Result != "error":
		wrong("recorded as %s", r.Result)
	case got && x.complete && !x.cut() && !x.known(up): // else it was whole before its end was
		wrong("the client got the answer whole, but it is recorded as %s", r.Short())
	case r.Code == "canceled":
		if !x.cut() && !(got && x.complete && x.known(up)) { // who has all of it leaves before its end
			wrong("recorded as canceled, but the client had not left")
		}
	case r.Code == "upstream":
		if up != nil && !up.broke && !up.died && !up.unprocessed && !up.reset && !x.a.garbage {
			wrong("recorded as %s, but the upstream did nothing wrong", r.Short())
		}
		if r.Reason == "upstream_truncated" != (r.Status != 0) {
			wrong("recorded as %s with the status %d", r.Short(), r.Status)
		}
	default:
		wrong("recorded as %s", r.Short())
	}
	return out
}

// hurried reports whether the end of the answer may have been lost: its client was still
// sending what nobody wanted, for longer than a connection that ends is read from.
func (x *exchange) hurried() bool {
	return errors.Is(x.err, syscall.ECONNRESET) && (x.pipelined || x.last() == nil || !x.last().whole)
}

// told is what kimbap itself answered.
func (x *exchange) told() (p apptest.Problem) {
	_ = json.Unmarshal(x.body, &p) // else it said nothing
	return p
}

func agentOf(r apptest.Record) string {
	var who struct {
		Agent string `json:"agent"`
	}
	_ = json.Unmarshal([]byte(r.Line), &who)
	return who.Agent
}

// dump is all that is known of an exchange.
func (x *exchange) dump(trail []apptest.Record) string {
	var b strings.Builder
	q, a := x.q, x.a
	q.body, a.body = nil, nil
	fmt.Fprintf(&b, "  asked     %d bytes %+v\n  answer    %d bytes %+v\n", len(x.q.body), q, len(x.a.body), a)
	fmt.Fprintf(&b, "  client    h2 %v plain %v pipelined %v headOut %v wrote %d allOut %v left %v severed %v over %v continued %v interims %v status %d body %d trailer %v complete %v err %v\n",
		x.onH2, x.plain, x.pipelined, x.headOut, x.wrote, x.allOut, x.left, x.severed, x.over, x.continued, x.interims, x.status, len(x.body), x.trailer, x.complete, x.err)
	if problem(x.header) {
		fmt.Fprintf(&b, "  told      %s\n", x.body)
	}
	for _, at := range x.attempts {
		one := *at
		one.body = nil
		fmt.Fprintf(&b, "  upstream  body %d %+v\n", len(at.body), one)
	}
	for _, r := range trail {
		fmt.Fprintf(&b, "  recorded  %s status %d\n", r.Short(), r.Status)
	}
	return b.String()
}
