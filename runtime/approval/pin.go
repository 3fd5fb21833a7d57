package approval

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/kimbap-run/kimbap/runtime"
)

// pinKey is what is sealed of a PIN: an Argon2id key (RFC 9106) with all it
// takes to derive it again, and what its person is.
type pinKey struct {
	Roles   []string
	Groups  []string
	Salt    []byte
	Key     []byte
	Passes  uint32
	Memory  uint32 // KiB
	Threads uint8
}

// The cost of a PIN: the second choice of RFC 9106 section 4, in about a tenth
// of a second.
const (
	pinPasses  = 3
	pinMemory  = 64 << 10 // KiB
	pinThreads = 4
	pinLength  = 32
)

// derivedAtOnce is how many keys of PINs a process derives at a time: each takes much memory,
// and anybody who may decide can name people who are nobody.
const derivedAtOnce = 2

var deriving = make(chan struct{}, derivedAtOnce)

// derive is the key of a PIN under this salt and cost.
func (k *pinKey) derive(pin runtime.Secret) []byte {
	deriving <- struct{}{}
	defer func() { <-deriving }()
	return argon2.IDKey([]byte(pin.Reveal()), k.Salt, k.Passes, k.Memory, k.Threads, pinLength)
}

func (d *Desk) newPinKey(pin runtime.Secret, roles, groups []string) pinKey {
	k := pinKey{Roles: roles, Groups: groups, Salt: make([]byte, 16), Passes: pinPasses, Memory: d.o.PinMemory, Threads: pinThreads}
	_, _ = rand.Read(k.Salt) // never fails
	k.Key = k.derive(pin)
	return k
}

// freeTries are the wrong PINs in a row that cost nothing; after them the PIN is
// closed for firstPause, twice as long each time, at most for lastPause.
const (
	freeTries  = 3
	firstPause = 5 * time.Second
	lastPause  = 15 * time.Minute
)

// pauseAfter is how long the PIN is closed after so many wrong tries in a row.
func pauseAfter(tries int) time.Duration {
	if tries < freeTries {
		return 0
	}
	return min(lastPause, firstPause<<min(tries-freeTries, 20))
}

// provePin returns the sealed part of a person's PIN if this is it. The try is
// counted before the PIN is looked at, so that tries at the same time do not get
// around the pause, nor does ending the process.
func (d *Desk) provePin(ctx context.Context, tenant runtime.Tenant, who string, pin runtime.Secret) (*pinKey, error) {
	p, found, err := d.pin(ctx, tenant, who)
	if err != nil {
		return nil, err
	}
	if !found { // takes as long as a wrong one
		_ = d.newPinKey(pin, nil, nil)
		return nil, wrongPin(who)
	}
	if err := d.countTry(ctx, &p); err != nil {
		return nil, err
	}
	k, err := d.openPin(ctx, &p)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(k.derive(pin), k.Key) != 1 {
		return nil, wrongPin(who)
	}
	return k, d.o.Store.ClearTries(ctx, p.Tenant, who)
}

// countTry counts a try of a PIN before it is looked at; a PIN that is closed takes none. One that
// is closed for longer than its tries make it was so by a clock that was ahead: it is closed anew
// from now on, for one try more, and not until that clock's day.
func (d *Desk) countTry(ctx context.Context, p *Pin) error {
	now, next := d.now(), pauseAfter(p.Tries+1)
	closed := p.Until.Sub(now)
	if closed > 0 && closed <= pauseAfter(p.Tries) {
		return pinClosed(p.Who, closed)
	}
	counted, err := d.o.Store.TryPin(ctx, p.Tenant, p.Who, p.Tries, now.Add(next))
	switch {
	case err == nil && !counted:
		err = pinClosed(p.Who, time.Second)
	case err == nil && closed > 0:
		err = pinClosed(p.Who, next)
	}
	return err
}

// pin finds a person's PIN.
func (d *Desk) pin(ctx context.Context, tenant runtime.Tenant, who string) (Pin, bool, error) {
	pins, err := d.o.Store.Pins(ctx, pinTenant(tenant, who))
	at := slices.IndexFunc(pins, func(p Pin) bool { return p.Who == who })
	if err != nil || at < 0 {
		return Pin{}, false, err
	}
	return pins[at], true, nil
}

// pinTenant is where a PIN is kept: a named person's with the tenant, and the
// owner's own, local:UID, with the default one. The owner is one person for all
// tenants; a second PIN that is not set yet could be set by any program of theirs.
func pinTenant(tenant runtime.Tenant, who string) runtime.Tenant {
	if isOwners(who) {
		return runtime.DefaultTenant
	}
	return tenant
}

// isOwners reports whether a PIN is the owner's own.
func isOwners(who string) bool { return strings.HasPrefix(who, "local:") }

const purposePin = "approval.pin"

func (d *Desk) openPin(ctx context.Context, p *Pin) (*pinKey, error) {
	plain, err := d.o.Sealer.OpenFor(ctx, p.Tenant, purposePin, p.Sealed, lengths(string(p.Tenant), p.Who))
	k := &pinKey{}
	if err == nil {
		err = json.Unmarshal(plain, k)
	}
	if err != nil {
		return nil, sealBroken(ctx, err, "the stored PIN of "+word(p.Who)+" is not what was set: somebody has edited it")
	}
	return k, nil
}

// NewPin is a PIN to be set, or taken away.
type NewPin struct {
	As     string   // the person's name; "": the operator
	Roles  []string // of a new person
	Groups []string
	PIN    runtime.Secret // empty: remove it
	Proved runtime.Secret // the PIN that allows it, see [Desk.PinNeeds]
}

// PinNeeds returns whose PIN allows to set or remove the PIN of a person, ""
// when none is needed: a PIN is changed by itself, and people come and go by the
// operator's own, which must be there first.
func (d *Desk) PinNeeds(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, as string, remove bool) (who string, err error) {
	if !operates(&by, tenant) {
		return "", notOperator()
	}
	_, own, err := d.pin(ctx, tenant, by.ID)
	if err != nil {
		return "", err
	}
	if as == "" {
		if own {
			return by.ID, nil
		}
		return "", nil
	}
	if !personName().MatchString(as) {
		return "", badPin("a person's name is 1 to 40 lower-case letters, digits, \".\", \"_\" and \"-\"", "kimbap approve pin --as alice")
	}
	_, known, err := d.pin(ctx, tenant, personPrefix+as)
	switch {
	case err != nil:
		return "", err
	case known && !remove:
		return personPrefix + as, nil
	case !own:
		return "", badPin("people are named by who has a PIN", "set your own first: kimbap approve pin")
	}
	return by.ID, nil
}

func personName() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,39}$`) }

// The lengths of a PIN in characters.
const (
	shortestPin = 6
	longestPin  = 128
)

// SetPin sets, changes or removes a PIN. A person who is there keeps
// their roles and groups.
func (d *Desk) SetPin(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, n NewPin) error {
	remove := n.PIN.Empty()
	needs, err := d.PinNeeds(ctx, by, tenant, n.As, remove)
	if err != nil {
		return err
	}
	if length := utf8.RuneCountInString(n.PIN.Reveal()); !remove && (length < shortestPin || length > longestPin) {
		return badPin(fmt.Sprintf("a PIN has %d to %d characters", shortestPin, longestPin), "choose another")
	}
	target := by.ID
	if n.As != "" {
		target = Person(n.As)
	}
	if needs != "" {
		k, err := d.provePin(ctx, tenant, needs, n.Proved)
		if err != nil {
			return err
		}
		if needs == target {
			n.Roles, n.Groups = k.Roles, k.Groups
		}
	}
	if remove {
		return d.removePin(ctx, by, tenant, target)
	}
	return d.putPin(ctx, tenant, target, n)
}

// putPin seals and keeps a PIN.
func (d *Desk) putPin(ctx context.Context, tenant runtime.Tenant, target string, n NewPin) error {
	tenant = pinTenant(tenant, target)
	plain, err := json.Marshal(d.newPinKey(n.PIN, n.Roles, n.Groups))
	if err != nil {
		return err
	}
	sealed, err := d.o.Sealer.SealFor(ctx, tenant, purposePin, plain, lengths(string(tenant), target))
	if err != nil {
		return err
	}
	return d.o.Store.PutPin(ctx, Pin{Tenant: tenant, Who: target, Sealed: sealed, Set: d.now()})
}

// removePin keeps the operator's own until everybody else's is gone: who is
// named by it would stay without anybody who may change that.
func (d *Desk) removePin(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, target string) error {
	if target == by.ID {
		if err := d.alone(ctx, tenant, target); err != nil {
			return err
		}
	}
	removed, err := d.o.Store.RemovePin(ctx, pinTenant(tenant, target), target)
	if err == nil && !removed {
		return badPin("there is no such PIN", "")
	}
	return err
}

// alone refuses where others depend on an operator's PIN: in the tenant, and in every
// tenant on the owner's own.
func (d *Desk) alone(ctx context.Context, tenant runtime.Tenant, own string) error {
	read := d.o.Store.AllPins
	if !isOwners(own) {
		read = func(ctx context.Context) ([]Pin, error) { return d.pins(ctx, tenant) }
	}
	pins, err := read(ctx)
	for _, p := range pins {
		if p.Who == own {
			continue
		}
		hint := "remove theirs first: kimbap approve pin --as NAME --remove"
		if p.Tenant != tenant && !isOwners(p.Who) {
			hint += " --tenant " + word(string(p.Tenant))
		}
		return badPin("other people still have PINs", hint)
	}
	return err
}

// pins are those that count in a tenant: of its people, and the owner's own.
func (d *Desk) pins(ctx context.Context, tenant runtime.Tenant) ([]Pin, error) {
	pins, err := d.o.Store.Pins(ctx, tenant)
	if err != nil || tenant == runtime.DefaultTenant {
		return pins, err
	}
	all, err := d.o.Store.Pins(ctx, runtime.DefaultTenant)
	for _, p := range all {
		if pinTenant(tenant, p.Who) == runtime.DefaultTenant {
			pins = append(pins, p)
		}
	}
	return pins, err
}

// People returns who of a tenant has a PIN, by name.
func (d *Desk) People(ctx context.Context, by runtime.Principal, tenant runtime.Tenant) ([]string, error) {
	if !operates(&by, tenant) {
		return nil, notOperator()
	}
	pins, err := d.pins(ctx, tenant)
	var out []string
	for _, p := range pins {
		out = append(out, p.Who)
	}
	return out, err
}

func badPin(msg, hint string) *runtime.Error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: msg, Hint: hint}
}

func wrongPin(who string) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonWrongPIN,
		Msg: "this is not the PIN of " + word(who), Hint: "after several wrong ones kimbap waits, longer each time",
	}
}

func pinClosed(who string, left time.Duration) *runtime.Error {
	left = max(time.Second, left.Round(time.Second))
	return &runtime.Error{
		Code: runtime.CodeRateLimited, Reason: runtime.ReasonWrongPIN, RetryAfter: left,
		Msg: fmt.Sprintf("too many wrong PINs of %s: the next try is taken in %s", word(who), runtime.Span(left)), Hint: "wait, then try again",
	}
}
