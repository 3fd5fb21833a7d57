package approval

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// How a decision's author was proven to be a person. With presenceNone any
// process of the operator's uid could have made it.
const (
	presenceNone    = "none"
	presencePIN     = "pin"
	presencePasskey = "passkey"
)

// strength orders what can be shown for being a person. What is not known here
// is stronger than everything: it can be demanded and never be met.
func strength(presence string) int {
	at := slices.Index([]string{presenceNone, presencePIN, presencePasskey}, presence)
	switch {
	case presence == "":
		return 0
	case at < 0:
		return 3
	}
	return at
}

// personPrefix begins the ids of people who decide under a name of their own.
const personPrefix = "person:"

// Person is how a decision names somebody who decides by a PIN of their own.
func Person(name string) string { return personPrefix + name }

// decider says who decides: the operator, or the person whose name and PIN were
// given, what they have shown, and what else rules may call them ("role:finance").
func (d *Desk) decider(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, as string, pin runtime.Secret) (decision, []string, error) {
	v := decision{By: by.ID, Presence: presenceNone}
	if as != "" {
		v.By = personPrefix + as
	}
	if as == "" && pin.Empty() {
		v.At = d.now()
		return v, called(by.Roles, by.Groups), nil
	}
	if as == "" && by.TokenID != "" {
		return v, nil, noPinOfToken()
	}
	key, err := d.provePin(ctx, tenant, v.By, pin)
	if err != nil {
		return v, nil, err
	}
	v.Presence, v.At = presencePIN, d.now()
	if as == "" {
		return v, called(by.Roles, by.Groups), nil
	}
	return v, called(key.Roles, key.Groups), nil
}

// mayAccept refuses a decider whom the rule does not take.
func (d *Desk) mayAccept(ctx context.Context, f *dossier, by *runtime.Principal, v decision, names []string) error {
	demanded, err := d.demanded(ctx, f)
	if err != nil {
		return err
	}
	if strength(v.Presence) < strength(demanded) {
		return presenceRequired(by, demanded)
	}
	if len(f.Terms.By) > 0 && !slices.ContainsFunc(f.Terms.By, func(one string) bool { return isOne(one, v.By, names) }) {
		return notAsked(f.Terms.By)
	}
	if f.Terms.Count > 1 && v.By == f.Principal {
		return ownRequest()
	}
	return nil
}

// called are the words of a rule's list that mean everybody with these roles
// and groups.
func called(roles, groups []string) []string {
	var out []string
	for _, role := range roles {
		out = append(out, "role:"+role)
	}
	for _, group := range groups {
		out = append(out, "group:"+group)
	}
	return out
}

// isOne reports whether an entry of a rule's list means this decider.
func isOne(entry, who string, names []string) bool {
	return entry == who || personPrefix+entry == who || slices.Contains(names, entry)
}

// demanded is what deciders must show: what the rule says, and for what is
// critical a PIN as soon as anybody has one.
func (d *Desk) demanded(ctx context.Context, f *dossier) (string, error) {
	if f.Risk != runtime.RiskCritical || strength(f.Terms.Presence) >= strength(presencePIN) {
		return f.Terms.Presence, nil
	}
	pins, err := d.pins(ctx, f.Tenant)
	if err != nil || len(pins) == 0 {
		return f.Terms.Presence, err
	}
	return presencePIN, nil
}

// Demands returns what whoever accepts must show for being a person: "" or
// none, pin, passkey. Only an operator may ask.
func (d *Desk) Demands(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, id string) (string, error) {
	a, err := d.forOperator(ctx, by, tenant, id)
	if err != nil {
		return "", err
	}
	if a.released() {
		return "", nil // nobody accepts it: [Desk.Accept] says why
	}
	f, err := d.open(ctx, &a)
	if err != nil {
		return "", err
	}
	return d.demanded(ctx, f)
}

// ErrPresence is behind the refusal of a decision whose author has not shown
// that they are a person.
var ErrPresence = errors.New("the decider has not shown to be a person")

func presenceRequired(by *runtime.Principal, demanded string) *runtime.Error {
	e := &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonPresenceRequired, Err: ErrPresence,
		Msg: "only a person who shows a PIN may accept this", Hint: "set one on a terminal: kimbap approve pin",
	}
	switch {
	case strength(demanded) > strength(presencePIN):
		e.Msg, e.Hint = "the rule demands a "+word(demanded)+", which this kimbap cannot check", "change the rule to presence: pin"
	case by.TokenID != "":
		e = noPinOfToken()
	}
	return e
}

// noPinOfToken is for who decides by a token and names no person: no PIN is ever a token's.
func noPinOfToken() *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonPresenceRequired, Err: ErrPresence,
		Msg:  "a token can show no PIN: only a person who is named can",
		Hint: "accept it as one who has a PIN there: kimbap approve accept ID --as NAME; the owner gives them one with: kimbap approve pin --as NAME",
		Ask:  `accept it as one who has a PIN, with "as": "NAME" and "pin": their own`,
	}
}

func notAsked(by []string) *runtime.Error {
	list := make([]string, len(by))
	for i, one := range by {
		list[i] = word(one)
	}
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonNotApprover,
		Msg:  "the rule wants this decided by " + strings.Join(list, ", "),
		Hint: "one of them accepts it with: kimbap approve accept ID --as NAME", Ask: `one of them accepts it with "as": "NAME"`,
	}
}

func ownRequest() *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonNotApprover,
		Msg:  "the rule wants several people, and who asks is not one of them",
		Hint: "others accept it with: kimbap approve accept ID --as NAME", Ask: `others accept it with "as": "NAME"`,
	}
}

// word makes a short text of somebody else's safe to show.
func word(text string) string {
	shown, _ := visible(text, 60)
	return shown
}
