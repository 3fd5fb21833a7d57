package vault

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

const (
	maxTTL      = 24 * time.Hour
	failedPause = time.Second // how long a failed fetch is not tried again
	maxWord     = 4096        // bytes of one word of a command
)

// Reference says where the value of a secret is fetched whenever it is needed:
// what a command of another store prints. The command is data that everybody who
// lists secrets may see; it must not hold one.
type Reference struct {
	Command []string      `json:"command"`            // an absolute path, then arguments
	Env     []string      `json:"env,omitempty"`      // names of variables that it gets beside the usual ones
	TTL     time.Duration `json:"ttl_nanos,omitzero"` // how long a value is kept in memory; 0: not beyond the call
}

// Fetcher runs the command of a reference. The value is one line, without its
// end. An error denies the call and may be shown to the caller, so it holds
// nothing that the command has printed.
type Fetcher interface {
	Fetch(ctx context.Context, r Reference) (runtime.Secret, error)
}

// noFetcher is the Fetcher of a vault that was given none.
type noFetcher struct{}

func (noFetcher) Fetch(context.Context, Reference) (runtime.Secret, error) {
	return runtime.Secret{}, &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonReference, Stage: runtime.StageCredential,
		Msg: "this process fetches no credential from another store", Hint: "use kimbap proxy or kimbap run",
	}
}

// check says what is wrong with a reference, "" when nothing is.
func (r Reference) check() string {
	switch {
	case len(r.Command) == 0 || r.Command[0] == "":
		return "names no command"
	case r.TTL < 0 || r.TTL > maxTTL:
		return "keeps values for a time that is not from 0 to 24h"
	case slices.ContainsFunc(append(slices.Clone(r.Command), r.Env...), func(w string) bool { return len(w) > maxWord || !printable(w) }):
		return "has a word that is too long or is not one line of text"
	}
	return ""
}

func (r Reference) encode() string {
	text, _ := json.Marshal(r) // strings and a number always encode
	return string(text)
}

// parseReference reads what encode wrote; the seal has proved that it did, where it was opened.
func parseReference(row *Sealed) (*Reference, error) {
	r := &Reference{}
	if err := json.Unmarshal([]byte(row.Reference), r); err != nil || r.check() != "" {
		return nil, tampered(fmt.Sprintf("the command of the stored credential %q", row.Name), storeAgain(row))
	}
	return r, nil
}

// fetched is what other stores gave, for as long as it may be kept.
type fetched struct {
	mu     sync.Mutex
	values map[place]fetch
	flight singleflight.Group
}

// fetch is one value, or the failure to get it.
type fetch struct {
	seal  string // of the reference that it came by
	value runtime.Secret
	err   error
	at    time.Time
	keep  time.Duration // since then
}

func (f *fetched) get(at place, seal string, now time.Time) (fetch, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	got, ok := f.values[at]
	return got, ok && got.seal == seal && system.Elapsed(got.at, now) < got.keep
}

func (f *fetched) put(at place, got fetch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.values == nil {
		f.values = map[place]fetch{}
	}
	f.values[at] = got
}

func (f *fetched) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.values)
}

// fetch returns the value of a reference, from memory when it may. Callers that
// come while it is fetched wait for that one; each may leave.
func (v *Vault) fetch(ctx context.Context, at place, o *opened) (runtime.Secret, error) {
	if got, ok := v.fetched.get(at, o.seal, v.o.Clock()); ok {
		return got.value, got.err
	}
	done := v.fetched.flight.DoChan(string(at.tenant)+"\x00"+at.name+"\x00"+o.seal, func() (any, error) {
		return v.fetchOnce(context.WithoutCancel(ctx), at, o)
	})
	select {
	case r := <-done:
		value, _ := r.Val.(runtime.Secret)
		return value, r.Err
	case <-ctx.Done():
		return runtime.Secret{}, ctx.Err()
	}
}

// fetchOnce fetches a value for all who wait for it. A panic is an error of theirs:
// singleflight would end the process with it.
func (v *Vault) fetchOnce(ctx context.Context, at place, o *opened) (value runtime.Secret, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			value, err = runtime.Secret{}, &runtime.Error{
				Code: runtime.CodeInternal, Reason: runtime.ReasonReference, Stage: runtime.StageCredential,
				Msg:  fmt.Sprintf("fetching the credential %q from the store that keeps it failed", at.name),
				Hint: "see the log of the kimbap process", Err: fmt.Errorf("panic: %v", broken),
			}
		}
	}()
	if got, ok := v.fetched.get(at, o.seal, v.o.Clock()); ok { // it came in between
		return got.value, got.err
	}
	value, err = v.o.Fetch.Fetch(ctx, *o.reference)
	if err != nil {
		err = notFetched(at.name, err)
	} else {
		err = usable(at.name, value)
	}
	keep := o.reference.TTL
	if err != nil {
		value, keep = runtime.Secret{}, failedPause
	} else {
		v.live.add(value, false)
	}
	v.fetched.put(at, fetch{o.seal, value, err, v.o.Clock(), keep})
	if v.Locked() { // meanwhile; looked at afterwards, since a lock forgets what is kept only once
		v.fetched.clear()
		return runtime.Secret{}, v.locked()
	}
	return value, err
}

// notFetched is the error of a value that did not come.
func notFetched(name string, cause error) error {
	e := &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonReference, Stage: runtime.StageCredential,
		Msg:  fmt.Sprintf("the credential %q could not be fetched from the store that keeps it", name),
		Hint: "the owner of this kimbap runs the command of this credential by hand (kimbap vault list shows it) and signs in there", Err: cause,
	}
	return e
}

// usable refuses a value that came and is none, and says nothing of it but that.
func usable(name string, value runtime.Secret) error {
	why := ""
	switch {
	case value.Empty():
		why = "is empty"
	case len(value.Reveal()) > maxValue:
		why = "is over 64 KiB"
	case !carried(value):
		why = "has a control character, as the colours of a terminal are"
	default:
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonReference, Stage: runtime.StageCredential,
		Msg:  fmt.Sprintf("what the command of the credential %q prints cannot be used: it %s", name, why),
		Hint: "the owner of this kimbap has the command print the key alone, as plain text (kimbap vault list shows it)",
	}
}
