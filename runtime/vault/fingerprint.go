package vault

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"sync"

	"github.com/kimbap-run/kimbap/runtime"
)

// The trail must not show a stored value under whatever name it comes, and must
// not open every secret to know them. So a keyed hash of each value and of its
// words is stored beside it when it is sealed: without the master key it says
// nothing.

const (
	printSize = 16 // bytes of a fingerprint
	maxPrints = 64 // of one secret
)

// prints makes the fingerprints of one tenant. It is safe for concurrent use.
type prints struct {
	pool sync.Pool // of *printer
}

// printer is a keyed hash with the room that it works in.
type printer struct {
	mac  hash.Hash
	word []byte
	sum  []byte
}

func newPrints(t *tenant) (*prints, error) {
	key, err := derive(t.versions[0].key[:], "fingerprint secrets") // of the first: a rotation leaves stored ones as they are
	if err != nil {
		return nil, err
	}
	p := &prints{}
	p.pool.New = func() any { return &printer{mac: hmac.New(sha256.New, key)} }
	return p, nil
}

func (p *prints) of(word string) (out [printSize]byte) {
	one := p.pool.Get().(*printer)
	defer p.pool.Put(one)
	one.mac.Reset()
	one.word = append(one.word[:0], word...)
	_, _ = one.mac.Write(one.word)
	clear(one.word) // it may be a secret
	one.sum = one.mac.Sum(one.sum[:0])
	copy(out[:], one.sum)
	return out
}

// fingerprints of a value, or of each of its parts: of all of it, then of its words.
func (v *Vault) fingerprints(t *tenant, value string) ([]string, error) {
	if v.o.Words == nil {
		return nil, nil
	}
	p, err := newPrints(t)
	if err != nil {
		return nil, err
	}
	var out []string
	add := func(word string) bool {
		sum := p.of(word)
		if one := hex.EncodeToString(sum[:]); !slices.Contains(out, one) {
			out = append(out, one)
		}
		return len(out) < maxPrints
	}
	secrets := v.parts(runtime.NewSecret(value)) // beside them a grant holds names of hosts and times, which are no secrets
	if len(secrets) == 0 {
		secrets = []runtime.Secret{runtime.NewSecret(value)}
	}
	for _, secret := range secrets {
		add(secret.Reveal())
	}
	for _, secret := range secrets {
		v.o.Words(secret.Reveal())(add)
	}
	return out, nil
}

// known is the fingerprints of all secrets of a tenant.
type known struct {
	prints *prints
	all    map[[printSize]byte]struct{}
}

func (k *known) has(word string) bool {
	_, ok := k.all[k.prints.of(word)]
	return ok
}

// Known returns a func that tells whether a word is a stored value of a tenant or
// a word of one; nil when there is none. The fingerprints are read from the store
// on first use and after [Vault.Forget]; the func holds no secret and is safe for
// concurrent use. A locked vault cannot tell.
func (v *Vault) Known(ctx context.Context, name runtime.Tenant) (func(word string) bool, error) {
	memory := v.memory.Load()
	if f, ok := memory.known.Load(name); ok {
		return f.(func(string) bool), nil
	}
	t, err := v.tenant(ctx, name)
	if err != nil {
		return nil, err
	}
	rows, err := v.o.Store.Secrets(ctx, name)
	if err != nil {
		return nil, unknowable(err)
	}
	k := known{all: map[[printSize]byte]struct{}{}}
	for _, row := range rows {
		for _, text := range row.Fingerprints {
			var one [printSize]byte
			if n, err := hex.Decode(one[:], []byte(text)); err == nil && n == printSize {
				k.all[one] = struct{}{}
			}
		}
	}
	var f func(string) bool
	if len(k.all) > 0 {
		if k.prints, err = newPrints(t); err != nil {
			return nil, err
		}
		f = k.has
	}
	memory.known.Store(name, f)
	return f, nil
}
