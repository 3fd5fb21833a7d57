package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

const (
	issuerLife = 7 * day
	// issuerRenew leaves a fresh leaf its full life under the old intermediate.
	issuerRenew = leafLife + day
	// renewPause keeps a root that cannot be unsealed from costing every request.
	renewPause = time.Minute
)

// issuer is the intermediate of the moment. It is never stored.
type issuer struct{ signer }

// newIssuer signs an intermediate that can sign leaves only. What narrows it to
// the hosts of the installed services (name constraints, RFC 5280 section
// 4.2.1.10) belongs in this template: the root outlives a change of services,
// the intermediate is made anew for it.
func newIssuer(root signer, now time.Time) (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	begin, end := within(now, issuerLife, root)
	template := caTemplate("kimbap local intermediate", begin, end)
	template.MaxPathLen, template.MaxPathLenZero = 0, true
	cert, err := sign(template, root.cert, &key.PublicKey, root.key)
	if err != nil {
		return nil, err
	}
	return &issuer{signer{cert, key}}, nil
}

// within returns the validity of a certificate made now: no part of it lies
// outside its parent's.
func within(now time.Time, life time.Duration, parent signer) (begin, end time.Time) {
	begin, end = now.Add(-clockSkew).UTC(), now.Add(life).UTC()
	if begin.Before(parent.cert.NotBefore) {
		begin = parent.cert.NotBefore
	}
	if end.After(parent.cert.NotAfter) {
		end = parent.cert.NotAfter
	}
	return begin, end
}

// currentIssuer returns an intermediate that is valid now, renewed in time. A
// renewal that goes wrong is an error only when the old one has run out.
func (a *Authority) currentIssuer(now time.Time) (*issuer, error) {
	if is := a.issuer.Load(); is.fresh(now) || a.lastIssuer(is) && is.valid(now) {
		return is, nil
	}
	a.renewal.Lock()
	defer a.renewal.Unlock()
	is := a.issuer.Load()
	if is.fresh(now) || is.valid(now) && now.Before(a.retryAt) {
		return is, nil
	}
	err := a.renew(now)
	if err == nil {
		return a.issuer.Load(), nil
	}
	a.retryAt = now.Add(renewPause)
	if is.valid(now) {
		return is, nil
	}
	return nil, fmt.Errorf("renew the intermediate certificate: %w", err)
}

// renew unseals the root's key for as long as one signature takes.
func (a *Authority) renew(now time.Time) error {
	if now.After(a.root.NotAfter) {
		return a.expired()
	}
	key, err := a.rootKey()
	if err != nil {
		return err
	}
	is, err := newIssuer(signer{a.root, key}, now)
	if err != nil {
		return err
	}
	a.issuer.Store(is)
	return nil
}

func (a *Authority) expired() error {
	if a.dir == "" {
		return errors.New("the certificate authority of this run has expired: start the run again")
	}
	return rootFiles{dir: a.dir}.checkValidity(a.root, a.clock())
}

// lastIssuer reports whether is ends with the root, so that renewing gains nothing.
func (a *Authority) lastIssuer(is *issuer) bool {
	return is.cert.NotAfter.Equal(a.root.NotAfter)
}

func (is *issuer) fresh(now time.Time) bool {
	return is.valid(now) && is.cert.NotAfter.Sub(now) > issuerRenew
}

func (is *issuer) valid(now time.Time) bool {
	return now.After(is.cert.NotBefore) && now.Before(is.cert.NotAfter)
}
