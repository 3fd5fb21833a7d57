package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// Bounds of what stays of a closed approval, in bytes.
const (
	keptArgs   = 64 << 10 // of its arguments; more than that are left out
	keptValues = 64 << 10 // of the values that the next one is compared with
)

// longRequest is from how many bytes on a request is put away while no other such is: what
// is read of it takes many times as much.
const longRequest = 1 << 20

// How many requests of closed approvals one sweep takes away, and for how long: each may take
// half a second, and who lists approvals waits for it. One goes in any time.
const (
	releasesOnce = 50
	releasesFor  = time.Second
)

// remains is what stays of a request whose approval is closed: what a person is shown of
// it, and by what the next one of its action is compared.
type remains struct {
	Row    string // what the row says, so that it cannot be edited
	Text   string
	Args   runtime.Args
	Values map[string]string // nil where they are too many
}

// move changes the state of an approval, which who waits for it hears at once, and takes its
// request away once it is closed for good: nothing executes it any more. A request that stays,
// since the vault is locked or this process dies between the two, is taken by a [Desk.Sweep].
func (d *Desk) move(ctx context.Context, tenant runtime.Tenant, id string, from, to State, c Change) (bool, error) {
	moved, err := d.o.Store.Move(ctx, tenant, id, from, to, c)
	if !moved || err != nil {
		return moved, err
	}
	d.wake()
	if to.Closed() {
		_ = d.release(ctx, tenant, id)
	}
	return true, nil
}

// releaseAll takes away the requests that closed approvals still have, some at a time. One
// that is damaged stops no other; a vault that is locked opens none.
func (d *Desk) releaseAll(ctx context.Context, tenant runtime.Tenant) error {
	until := d.now().Add(releasesFor)
	ids, err := d.o.Store.Unreleased(ctx, tenant, releasesOnce)
	if err != nil {
		return err
	}
	away := false
	for _, id := range ids {
		if away && !d.now().Before(until) {
			break
		}
		one := d.release(ctx, tenant, id)
		if runtime.CodeOf(one) == runtime.CodeVaultLocked || ctx.Err() != nil {
			return one
		}
		away, err = away || one == nil, errors.Join(err, one)
	}
	return err
}

// release puts what stays of a closed approval in the place of its request. Of one that
// was edited, or is an older kimbap's, nothing stays: no word of it could be shown.
func (d *Desk) release(ctx context.Context, tenant runtime.Tenant, id string) error {
	a, found, err := d.o.Store.Approval(ctx, tenant, id)
	if err != nil || !found || !a.State.Closed() || len(a.Sealed) == 0 {
		return err
	}
	kept, err := d.keep(ctx, &a)
	if err != nil && runtime.AsError(err).Reason != runtime.ReasonTampered {
		return err
	}
	_, err = d.o.Store.Release(ctx, tenant, id, kept)
	return err
}

// keep seals what stays of an approval.
func (d *Desk) keep(ctx context.Context, a *Approval) ([]byte, error) {
	long := len(a.Sealed) > longRequest
	if long {
		d.long.Lock()
		defer d.long.Unlock()
	}
	f, err := d.open(ctx, a)
	if err != nil {
		return nil, err
	}
	if !long && classifier.Unpackable(f.Header) { // a short body may become one
		d.long.Lock()
		defer d.long.Unlock()
	}
	mask, err := d.mask(ctx, a.Tenant)
	if err != nil {
		return nil, err
	}
	v := render(a, f, false, mask)
	m := remains{Row: a.sum(), Text: v.Text, Args: brief(v.Args), Values: (&sheet{hidden: f.hiddenValues(), stored: mask}).flat(f)}
	if shown, cut := strings.CutSuffix(m.Text, cutShort); cut {
		m.Text = shown + "NOT FULLY SHOWN: it is closed, and the rest of it is not kept\n"
	}
	plain, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("keep what is shown of an approval: %w", err)
	}
	return d.o.Sealer.SealFor(ctx, a.Tenant, purposeRemains, plain, bind(a))
}

// remains returns what stays of a closed approval, verified.
func (d *Desk) remains(ctx context.Context, a *Approval) (*remains, error) {
	var m remains
	if err := d.openAs(ctx, a, purposeRemains, a.Kept, &m); err != nil {
		return nil, err
	}
	if m.Row != a.sum() {
		return nil, tampered(a, errors.New("the row differs from what was sealed of it"))
	}
	return &m, nil
}

// released reports whether the request of an approval was taken away.
func (a *Approval) released() bool { return a.State.Closed() && len(a.Sealed) == 0 }

// sum is the hex SHA-256 of what the row of a closed approval says.
func (a *Approval) sum() string {
	sum := sha256.Sum256(lengths(
		"kimbap closed approval 1", string(a.State), a.Principal, a.Agent, a.Run, string(a.Surface), string(a.Action), string(a.Risk),
		a.Rule, a.Reason, a.Method, a.Authority, a.Path, a.By, a.Presence, a.Note,
		strconv.FormatInt(a.Created.UnixMicro(), 10), strconv.FormatInt(a.Expires.UnixMicro(), 10),
	))
	return hex.EncodeToString(sum[:])
}

// brief are arguments as far as they are kept, their long texts cut; nil where there are
// too many.
func brief(args runtime.Args) runtime.Args {
	short, _ := cutTexts(map[string]any(args)).(map[string]any)
	if text, err := json.Marshal(short); err != nil || len(text) > keptArgs {
		return nil
	}
	return short
}

func cutTexts(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[name] = cutTexts(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = cutTexts(item)
		}
		return out
	case string:
		if text := []rune(v); len(text) > shownValue {
			return fmt.Sprintf("%s… (%d bytes, sha256 %s)", string(text[:shownValue]), len(v), fingerprint([]byte(v)))
		}
	}
	return value
}
