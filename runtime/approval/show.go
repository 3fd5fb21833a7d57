package approval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// View is an approval as a person sees it before deciding.
type View struct {
	Approval Approval     // without what is sealed
	Args     runtime.Args // the exact arguments, declared secrets left out
	Text     string       // safe for a terminal: no control character but newline
	Complete bool         // Text shows everything that is being asked
	Covered  bool         // it does not, since the value of a secret argument hides something else
	Size     int          // bytes of what is sealed of it; 0 of a closed one
	Like     string       // what a yes to the like of it allows, for people; "" of a closed one
	Count    int          // how many people must say yes, where it is more than one
	Voted    []string     // which of them have

	Execution string // of the script that asked first; "" for none, and of a closed one
}

// How much a view shows when it is not full: characters of a value, lines of
// values, levels of nesting.
const (
	shownValue = 500
	shownLines = 60
	shownDepth = 6
)

// Show renders an approval for an operator, verified. Long values are cut,
// with their size and SHA-256 in place of the rest, unless full; of a closed one the
// rest is not kept. Below stands how it differs from the one of the same action that was
// accepted last.
func (d *Desk) Show(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, id string, full bool) (View, error) {
	a, err := d.forOperator(ctx, by, tenant, id)
	if err != nil {
		return View{}, err
	}
	if a.released() {
		return d.showClosed(ctx, &a)
	}
	f, err := d.open(ctx, &a)
	if err != nil {
		return View{}, err
	}
	if (a.State == Pending || a.State == Approved) && d.expired(&a) {
		a.State = Expired
	}
	mask, err := d.mask(ctx, tenant)
	if err != nil {
		return View{}, err
	}
	v := render(&a, f, full, mask)
	v.Size = len(a.Sealed)
	if a.State == Pending {
		v.Like = f.like(mask)
	}
	if f.Terms.Count > 1 && a.State == Pending {
		v.Count = f.Terms.Count
		votes, err := d.votes(ctx, &a)
		if err != nil {
			return View{}, err
		}
		for _, vote := range votes {
			v.Voted = append(v.Voted, vote.By)
			v.Text += "yes from   " + word(vote.By) + ", presence " + word(vote.Presence) + ", " + vote.At.UTC().Format(time.RFC3339) + "\n"
		}
	}
	v.Text += d.compared(ctx, &a, account{asked: f}, mask)
	return v, nil
}

// listedRequest is the longest request that is opened for a line of a list, in bytes as it is
// sealed.
const listedRequest = 64 << 10

// Arguments are those of an approval, declared secrets left out, for a line of a list, with the
// execution of the script that asked first; none of a long request. Unlike [Desk.Show] it looks
// at no other approval: a list is asked for again and again, and an agent may ask for much at
// once.
func (d *Desk) Arguments(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, id string) (args runtime.Args, execution string, err error) {
	a, err := d.forOperator(ctx, by, tenant, id)
	if err != nil {
		return nil, "", err
	}
	if a.released() {
		m, err := d.remains(ctx, &a)
		if err != nil {
			return nil, "", err
		}
		return m.Args, "", nil
	}
	if len(a.Sealed) > listedRequest {
		return nil, "", nil
	}
	f, err := d.open(ctx, &a)
	if err != nil {
		return nil, "", err
	}
	return f.shownArgs(), f.Execution, nil
}

// showClosed is Show for an approval whose request is gone: what is shown of it is what
// was shown when it was closed, in short.
func (d *Desk) showClosed(ctx context.Context, a *Approval) (View, error) {
	m, err := d.remains(ctx, a)
	if err != nil {
		return View{}, err
	}
	mask, err := d.mask(ctx, a.Tenant)
	if err != nil {
		return View{}, err
	}
	return View{Approval: bare(*a), Args: m.Args, Text: m.Text + d.compared(ctx, a, account{kept: m}, mask)}, nil
}

// masks take stored credentials out of a text.
type masks func(text string) string

// mask is [Options.Mask], or nothing.
func (d *Desk) mask(ctx context.Context, tenant runtime.Tenant) (masks, error) {
	if d.o.Mask == nil {
		return func(text string) string { return text }, nil
	}
	return d.o.Mask(ctx, tenant)
}

// render makes the view.
func render(a *Approval, f *dossier, full bool, stored masks) View {
	v := View{Approval: bare(*a), Args: f.shownArgs(), Execution: f.Execution}
	s := &sheet{full: full, complete: true, stored: stored, hits: hits{}}
	s.hidden = f.hiddenValues()
	s.head(a, f)
	own := s.hits.total()
	if len(v.Args) > 0 {
		s.line(0, "arguments")
		s.value(1, "", map[string]any(v.Args))
	}
	v.Covered = s.hits.total() > own // secret ones stand there as such
	if !f.Built && len(f.Body) > 0 {
		s.body(f)
	}
	v.Covered = v.Covered || s.hits.exceed(f.ownPlaces())
	if v.Covered {
		s.text.WriteString(coveredText)
	}
	if s.skipped > 0 {
		s.complete = false
		fmt.Fprintf(&s.text, "… and %s\n", runtime.Count(s.skipped, "more line"))
	}
	if !s.complete {
		s.text.WriteString(cutShort)
	}
	v.Text, v.Complete = s.text.String(), s.complete && !v.Covered
	return v
}

// shownArgs are the arguments without those that are never shown.
func (f *dossier) shownArgs() runtime.Args {
	args := maps.Clone(f.Args)
	for _, name := range f.Secret {
		if _, given := args[name]; given {
			args[name] = hiddenText
		}
	}
	return args
}

// hiddenValues are the texts and numbers in arguments that are never shown, the longest first.
func (f *dossier) hiddenValues() (out []string) {
	for _, name := range f.Secret {
		out = leaves(out, f.Args[name])
	}
	return longestFirst(out)
}

// longestFirst sorts values that are to be taken out of a text: one may be part of another.
func longestFirst(values []string) []string {
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return values
}

// ownPlaces is how often each value of a secret argument stands where it belongs: once in the
// head or the body of a raw request.
func (f *dossier) ownPlaces() hits {
	own := hits{}
	if !f.Built {
		for _, value := range f.hiddenValues() {
			own[value]++
		}
	}
	return own
}

// leaves appends the texts in a value, and its numbers as they are written. What is true
// or false is in most requests, and would hide all of its like.
func leaves(to []string, value any) []string {
	switch v := value.(type) {
	case nil, bool:
	case map[string]any:
		for _, item := range v {
			to = leaves(to, item)
		}
	case []any:
		for _, item := range v {
			to = leaves(to, item)
		}
	default:
		if text := fmt.Sprint(v); text != "" {
			to = append(to, text)
		}
	}
	return to
}

// coveredText is shown where the value of a secret argument stands elsewhere, too.
const coveredText = "HIDDEN: where " + hiddenText + " stands above, it may be something else that has the value of a secret argument\n"

// cutShort ends a view that is not complete.
const cutShort = "NOT FULLY SHOWN: see all of it with --full (over REST: ?full=true)\n"

func fingerprint(data []byte) string {
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%x", sum[:8])
}
