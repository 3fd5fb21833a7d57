package approval

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// diffLines is how many differences a view shows.
const diffLines = 20

// account is what there is to compare of an approval: its request, or what stays of it.
type account struct {
	asked *dossier
	kept  *remains // where the request is gone
}

// account of an approval, verified.
func (d *Desk) account(ctx context.Context, a *Approval) (c account, err error) {
	if a.released() {
		c.kept, err = d.remains(ctx, a)
	} else {
		c.asked, err = d.open(ctx, a)
	}
	return c, err
}

// values are those of a request by name, each safe to show; nil where they are too many
// to be kept.
func (c *account) values(s *sheet) map[string]string {
	if c.kept == nil {
		return s.flat(c.asked)
	}
	if c.kept.Values == nil {
		return nil
	}
	out := map[string]string{}
	for name, value := range c.kept.Values {
		out[name] = s.mask(value)
	}
	return out
}

// hidden are the texts that neither side of a comparison shows. Of what stays of a request
// they are gone already.
func (c *account) hidden() []string {
	if c.kept != nil {
		return nil
	}
	return c.asked.hiddenValues()
}

// compared writes how a request differs from the one of the same action that was
// accepted last: what a person has seen before is read faster. It is an addition
// to what is shown, and never stands for it. Without an earlier one it is empty.
func (d *Desk) compared(ctx context.Context, a *Approval, now account, stored masks) string {
	last, found, err := d.o.Store.LastApproved(ctx, a.Tenant, a.Action)
	if err != nil || !found || last.ID == a.ID {
		return ""
	}
	before, err := d.account(ctx, &last)
	if err != nil {
		return "" // edited, or of an older kimbap: no word of it can be relied on
	}
	s := &sheet{hidden: longestFirst(append(now.hidden(), before.hidden()...)), stored: stored}
	was, is := before.values(s), now.values(s)
	if was == nil || is == nil {
		return fmt.Sprintf("not compared to %s, accepted %s: too much was asked to be kept\n", s.word(last.ID), last.Decided.UTC().Format(time.RFC3339))
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(union(was, is))) {
		old, had := was[name]
		now, has := is[name]
		switch {
		case !had:
			lines = append(lines, "+ "+name+": "+now)
		case !has:
			lines = append(lines, "- "+name+": "+old)
		case old != now:
			lines = append(lines, "~ "+name+": "+old+" → "+now)
		}
	}
	head := fmt.Sprintf("compared to %s, accepted %s by %s", s.word(last.ID), last.Decided.UTC().Format(time.RFC3339), s.word(last.By))
	if len(lines) == 0 {
		return head + ": the same\n"
	}
	if more := len(lines) - diffLines; more > 0 {
		lines = append(lines[:diffLines], fmt.Sprintf("… and %d more", more))
	}
	return head + "\n  " + strings.Join(lines, "\n  ") + "\n"
}

// union has the names of both.
func union(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// flat is a request as names with one text each, safe to show; nil where they are too many
// to be kept. Each name says what it is nested in: together they may be many times as long
// as the request.
func (s *sheet) flat(f *dossier) map[string]string {
	out := texts{by: map[string]string{}}
	out.add("asked by", s.word(f.Agent))
	out.add("rule", s.word(f.Rule))
	if f.Target.Authority != "" {
		out.add("request", s.request(f))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Args)) {
		value := f.Args[name]
		if slices.Contains(f.Secret, name) {
			value = hiddenText
		}
		s.flatten(&out, s.key(name), value)
	}
	if !f.Built && len(f.Body) > 0 {
		s.flattenBody(&out, f)
	}
	if out.tooMany() {
		return nil
	}
	return out.by
}

func (s *sheet) flattenBody(out *texts, f *dossier) {
	if value, is := f.document(); is {
		s.flatten(out, "body", value)
		return
	}
	out.add("body", s.cutQuote(s.maskRaw(f)))
}

// flatten adds the scalars of a value, and what is empty, as long as there is room.
func (s *sheet) flatten(out *texts, name string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if out.tooMany() {
				return
			}
			s.flatten(out, name+"."+s.key(key), v[key])
		}
		if len(v) == 0 {
			out.add(name, "{}")
		}
	case []any:
		for i, item := range v {
			if out.tooMany() {
				return
			}
			s.flatten(out, fmt.Sprintf("%s[%d]", name, i), item)
		}
		if len(v) == 0 {
			out.add(name, "[]")
		}
	case string:
		out.add(name, s.quote(v))
	case nil:
		out.add(name, "null")
	default:
		out.add(name, s.word(fmt.Sprint(v)))
	}
}

// texts are those of a request by name, as long as they are not too many.
type texts struct {
	by    map[string]string
	bytes int
}

func (t *texts) add(name, text string) {
	if t.bytes += len(name) + len(text); !t.tooMany() {
		t.by[name] = text
	}
}

func (t *texts) tooMany() bool { return t.bytes > keptValues }
