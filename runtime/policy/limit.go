package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
)

// limit is a rule's rate, and whose it is.
type limit struct {
	count int           // requests
	each  time.Duration // in this time
	burst int           // at once
	per   string        // agent | action | tenant
}

// Bounds of a limit.
const (
	maxCount = 1_000_000
	maxBurst = 1_000_000
)

// of is the bucket that the question takes from. Buckets of two tenants are
// never the same.
func (l *limit) of(rule string, q *runtime.Question) runtime.Limit {
	whose := ""
	switch l.per {
	case "agent":
		whose = q.Principal.Agent
	case "action":
		whose = string(q.Action.Ref)
	}
	return runtime.Limit{
		Rule: rule, Every: l.each / time.Duration(l.count), Burst: l.burst,
		Bucket: rule + "\x00" + string(q.Principal.Tenant) + "\x00" + l.per + "\x00" + whose,
	}
}

// String shows the limit as a file writes it, "" for none.
func (l *limit) String() string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("limit %s, burst %d, per %s", l.rate(), l.burst, l.per)
}

// rate is the rate as a file writes it.
func (l *limit) rate() string {
	unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h", 24 * time.Hour: "d"}[l.each]
	return fmt.Sprintf("%d/%s", l.count, unit)
}

// yaml is the whole limit as a file writes it.
func (l *limit) yaml() string {
	return fmt.Sprintf("{rate: %s, burst: %d, per: %s}", l.rate(), l.burst, l.per)
}

// limit reads the rate limit of a rule.
func (p *parser) limit(n *yaml.Node, r *ruleDocument) {
	l := &limit{per: "agent"}
	var burst *yaml.Node
	seen := p.mapping(n, "limit", []string{"rate", "burst", "per"}, func(key string, v *yaml.Node) {
		switch key {
		case "rate":
			p.rate(v, l)
		case "burst":
			burst = v
			if l.burst = p.whole(v); l.burst < 1 || l.burst > maxBurst {
				p.problem(v, "burst: 20", "burst is not a number of requests from 1 to %d", maxBurst)
			}
		case "per":
			if word, ok := p.word(v, "per"); ok && p.oneOf(v, "per", word, []string{"agent", "action", "tenant"}) {
				l.per = word
			}
		}
	})
	if seen == nil {
		return
	}
	if seen["rate"] == nil {
		p.problem(n, "limit: {rate: 60/m, burst: 20, per: agent}", "the limit has no rate")
	}
	if seen["burst"] == nil {
		l.burst = l.count
	}
	if seen["rate"] != nil && l.burst > 0 && l.burst <= maxBurst && time.Duration(l.burst) > math.MaxInt64/(l.each/time.Duration(l.count)) {
		p.problem(burst, "a lower burst, or a higher rate", "at this rate a burst of %d takes over 292 years to fill, which is not counted", l.burst)
	}
	r.limit = l
}

// rate reads "60/m".
func (p *parser) rate(v *yaml.Node, l *limit) {
	l.count, l.each = 1, time.Second // of a rate with a problem
	if v.Kind == yaml.ScalarNode && v.ShortTag() == "!!int" {
		p.problem(v, "rate: "+v.Value+"/m; the units are s, m, h and d", "rate has no unit: so many requests in what time?")
		return
	}
	text, ok := p.word(v, "rate")
	if !ok {
		return
	}
	number, unit, _ := strings.Cut(text, "/")
	each := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[unit]
	count, err := strconv.Atoi(number)
	if err != nil || count < 1 || count > maxCount || each == 0 || strconv.Itoa(count) != number {
		p.problem(v, "rate: 60/m; the units are s, m, h and d", "rate is not a number of requests in a time")
		return
	}
	l.count, l.each = count, each
}

// whole reads a number, 0 for what is none.
func (p *parser) whole(v *yaml.Node) int {
	n, err := strconv.Atoi(v.Value)
	if v.Kind != yaml.ScalarNode || v.ShortTag() != "!!int" || err != nil || strconv.Itoa(n) != v.Value {
		return 0
	}
	return n
}
