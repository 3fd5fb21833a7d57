package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// login is what is kept of the credential fields that a request is held without.
type login struct {
	// Placeholder is the field of the stored key, where it holds the placeholder: no secret,
	// and a service may want it when the request is sent again.
	Placeholder http.Header `json:",omitempty"`
	Own         bool        `json:",omitempty"` // the caller's login goes out: without it, this is another request
	Sum         string      `json:",omitempty"` // keyed hash of one that takes the place of the stored key
	Replaced    bool        `json:",omitempty"` // the stored key takes the place of the caller's login
}

// loginOf looks at the credential fields of a raw request.
func (d *Desk) loginOf(ctx context.Context, call *runtime.Call) (l login, err error) {
	header, auth := call.Request.Raw.Header, call.Action.Auth
	if call.Action.Ref.Foreign() {
		l.Own = len(spellings(header, "Authorization"))+len(spellings(header, "Cookie")) > 0
		return l, nil
	}
	place := auth.HeaderField()
	marked, given := len(spellings(header, place)) > 0, false
	for _, value := range valuesOf(header, place) {
		stands := slices.ContainsFunc(runtime.AppendReadings(nil, value, auth.Prefix), d.placeholderOf(auth))
		marked, given = marked && stands, given || value != "" && !stands
		l.Own = l.Own || auth.Caller == runtime.CallerKeep && !stands || kept(auth, value, auth.Prefix)
	}
	own := append([]string{place}, valuesOf(header, place)...)
	if place != "Authorization" {
		for _, value := range valuesOf(header, "Authorization") {
			l.Own = l.Own || kept(auth, value, "")
			given = given || value != "" && !slices.ContainsFunc(runtime.AppendReadings(nil, value, ""), d.placeholderOf(auth))
		}
		own = append(append(own, "Authorization"), valuesOf(header, "Authorization")...)
	}
	if given && !l.Own && auth.Ref != "" {
		l.Replaced, err = d.stored(ctx, call)
		l.Own = err == nil && !l.Replaced
	}
	switch {
	case err != nil:
	case l.Own:
		l.Sum, err = d.keyedHash(ctx, call.Principal.Tenant, string(lengths(own...)))
	case marked:
		l.Placeholder = http.Header{place: valuesOf(header, place)}
	}
	return l, err
}

// stored reports whether the service of a call has its key now.
func (d *Desk) stored(ctx context.Context, call *runtime.Call) (bool, error) {
	if d.o.Stored == nil {
		return true, nil
	}
	return d.o.Stored(ctx, call.Principal.Tenant, call.Action.Auth.Ref)
}

// kept reports whether a service lets this value of the caller's go in place of the stored key.
func kept(auth *runtime.Auth, value, prefix string) bool {
	return auth.KeepIf != "" && slices.ContainsFunc(runtime.AppendReadings(nil, value, prefix), auth.KeepIf.Match)
}

// placeholderOf tells the placeholders of a service, and those of others that have its key.
func (d *Desk) placeholderOf(auth *runtime.Auth) func(value string) bool {
	own := slices.Collect(maps.Values(auth.Placeholders))
	return func(value string) bool {
		return value != "" && (slices.Contains(own, value) || d.o.Placeholder != nil && d.o.Placeholder(value))
	}
}

// keyedHash is of a value that must not be guessed from it, where the key is to be had.
func (d *Desk) keyedHash(ctx context.Context, tenant runtime.Tenant, value string) (string, error) {
	if d.o.HashKey == nil {
		sum := sha256.Sum256([]byte(value))
		return hex.EncodeToString(sum[:]), nil
	}
	hash, err := d.o.HashKey(ctx, tenant)
	if err != nil {
		return "", err
	}
	return hash(value), nil
}

// spellings are the names in a header that some server takes for this field, sorted: those that
// differ in case, or have "_" for "-".
func spellings(header http.Header, field string) (names []string) {
	for name := range header {
		if field != "" && folded(name) == folded(field) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func folded(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// valuesOf are those of a field under all its spellings.
func valuesOf(header http.Header, field string) (values []string) {
	for _, name := range spellings(header, field) {
		values = append(values, header[name]...)
	}
	return values
}

// repeatable refuses what only its requester can make again.
func (f *dossier) repeatable(a *Approval) error {
	e := &runtime.Error{Code: runtime.CodeInvalidInput, ApprovalID: a.ID}
	switch {
	case f.Own:
		e.Msg = fmt.Sprintf("the request of %s was made with the requester's own login, which is not kept", a.ID)
		e.Hint = "send the same request again, with that login: it uses the yes"
	case f.Action == runtime.ActionTunnel || f.Target.Scheme == "tcp":
		e.Msg = fmt.Sprintf("%s is for a connection, which only its client can open", a.ID)
		e.Hint = "open it again: it uses the yes"
	default:
		return nil
	}
	return e
}
