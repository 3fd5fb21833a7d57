package certs

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// errNotPermitted is the refusal of a leaf for a host that no intermediate permits.
var errNotPermitted = errors.New("no intermediate certificate permits this host")

// Permit says for which authorities ("host:port", canonical) leaves may be
// made, one list for each service, and signs the intermediates for them: each
// is bound to at most 32 hosts of one service, and each host has one. What the
// last call signed for the same hosts is used again. The root's key is open for
// the time of the signatures, and only if there are any.
//
// A host that cannot stand in a certificate is left out and named in the error;
// the others are permitted all the same. When the key cannot be opened, what
// was permitted stays so until it can be ([Authority.Refresh]).
//
// An authority in memory forgets its root's key at the end of the first call,
// so that later ones permit nothing more; it keeps a sealed one with
// [Options.AnyHost].
func (a *Authority) Permit(services ...[]string) error {
	a.changing.Lock()
	defer a.changing.Unlock()
	st := a.standing.Load()
	if st == nil {
		return errNotOpen
	}
	groups, odd := group(services)
	if st.key == nil {
		if a.dir != "" { // no root to sign with since Refresh: remembered for the next one
			a.standing.Store(&standing{roots: st.roots, groups: groups})
			a.wanted = nil
		}
		return odd
	}
	next, err := a.staff(st, groups, a.clock())
	if err != nil {
		a.wanted, a.seen = groups, nil // look again
		return errors.Join(err, odd)
	}
	a.wanted = nil
	if a.dir == "" && !a.anyHost.Load() {
		next.key = nil
	}
	a.standing.Store(next)
	return odd
}

// Permits reports whether a leaf can be made for the authority.
func (a *Authority) Permits(authority string) bool {
	st := a.standing.Load()
	if st == nil {
		return false
	}
	host, err := leafHost(authority)
	return err == nil && a.permitted(st, host)
}

func (a *Authority) permitted(st *standing, host string) bool {
	return a.anyHost.Load() && st.key != nil || st.issuers[host] != nil
}

// group splits the hosts of each service into the lists of its intermediates. A
// host of two services belongs to the first. Names and the two families of
// addresses stay apart, because what excludes one permits the other.
func group(services [][]string) (groups [][]string, err error) {
	seen := map[string]bool{}
	for _, authorities := range services {
		var kinds [3][]string
		for _, authority := range authorities {
			host, herr := leafHost(authority)
			if herr != nil {
				err = errors.Join(err, herr)
				continue
			}
			if seen[host] {
				continue
			}
			seen[host] = true
			kind := 0
			if ip, err := netip.ParseAddr(host); err == nil {
				kind = 1 + ip.BitLen()/128
			}
			kinds[kind] = append(kinds[kind], host)
		}
		for _, hosts := range kinds {
			slices.Sort(hosts)
			groups = slices.AppendSeq(groups, slices.Chunk(hosts, maxHosts))
		}
	}
	return groups, err
}

// staff returns st with an intermediate for every group: those it has, as long
// as they serve, and new ones for the others.
func (a *Authority) staff(st *standing, groups [][]string, now time.Time) (*standing, error) {
	have := make(map[string]*issuer, len(st.groups))
	for _, hosts := range st.groups {
		have[strings.Join(hosts, " ")] = st.issuers[hosts[0]]
	}
	next := &standing{roots: st.roots, key: st.key, groups: groups, issuers: map[string]*issuer{}}
	var key *ecdsa.PrivateKey
	for _, hosts := range groups {
		is := have[strings.Join(hosts, " ")]
		if !is.serves(now) {
			var err error
			if key == nil {
				key, err = a.rootKey(st, now)
			}
			if err == nil {
				is, err = newIssuer(signer{st.roots.cert, key}, hosts, now, a.issuerLife())
			}
			if err != nil {
				return nil, err
			}
		}
		for _, host := range hosts {
			next.issuers[host] = is
		}
	}
	return next, nil
}

// issuerLife is a week, for what can be renewed. Without the root's key nothing
// can: then intermediates last as long as the root.
func (a *Authority) issuerLife() time.Duration {
	if a.dir == "" && !a.anyHost.Load() {
		return runLife
	}
	return issuerLife
}

// rootKey opens the root's key, for a root that is still good.
func (a *Authority) rootKey(st *standing, now time.Time) (*ecdsa.PrivateKey, error) {
	if root := st.roots.cert; now.Before(root.NotBefore) || now.After(root.NotAfter) {
		return nil, a.untimely(st, now)
	}
	return st.key.open()
}

// untimely says what is wrong with the time of a root, or with the clock.
func (a *Authority) untimely(st *standing, now time.Time) error {
	switch root := st.roots.cert; {
	case a.dir != "":
		return a.files().checkValidity(root, now)
	case now.Before(root.NotBefore):
		return errors.New("the clock of this machine was set back to before the certificate authority of this run: set it, or start the run again")
	}
	return errors.New("the certificate authority of this run has expired: start the run again")
}

// issuerFor returns the intermediate that permits host, renewed in time, and
// what it stands in. A renewal that goes wrong is an error only when the old
// one has run out.
func (a *Authority) issuerFor(host string, now time.Time) (*standing, *issuer, error) {
	st := a.standing.Load()
	is := st.issuers[host]
	switch {
	case is.serves(now):
		return st, is, nil
	case is == nil && a.permitted(st, host):
		is, err := a.single(st, host, now)
		return st, is, err
	case is == nil:
		return nil, nil, errNotPermitted
	}
	a.changing.Lock()
	defer a.changing.Unlock()
	st = a.standing.Load()
	is = st.issuers[host]
	if is == nil { // permitted no more, in the meantime
		return nil, nil, errNotPermitted
	}
	if is.serves(now) || is.valid(now) && now.Before(a.retryAt) {
		return st, is, nil
	}
	next, err := a.renewed(st, now)
	if err == nil {
		a.standing.Store(next)
		return next, next.issuers[host], nil
	}
	a.retryAt = now.Add(renewPause)
	if is.valid(now) {
		return st, is, nil
	}
	return nil, nil, fmt.Errorf("renew the intermediate certificate: %w", err)
}

// renewed is st with all intermediates that need it made anew.
func (a *Authority) renewed(st *standing, now time.Time) (*standing, error) {
	if st.key == nil {
		return nil, a.untimely(st, now)
	}
	return a.staff(st, st.groups, now)
}

// single returns the intermediate of one host that no service names, for
// [Options.AnyHost]. They are bounded in number; the one least used makes room.
func (a *Authority) single(st *standing, host string, now time.Time) (*issuer, error) {
	have, _ := a.singles.Get(host)
	if have != nil && have.root != st.roots.cert {
		have = nil // of the root before
	}
	if have.serves(now) {
		return have, nil
	}
	key, err := a.rootKey(st, now)
	if err == nil {
		var is *issuer
		if is, err = newIssuer(signer{st.roots.cert, key}, []string{host}, now, issuerLife); err == nil {
			a.singles.Add(host, is)
			return is, nil
		}
	}
	if have.valid(now) {
		return have, nil
	}
	return nil, err
}
