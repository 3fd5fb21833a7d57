package runtime

import "slices"

// Change is one thing by which a message that left differs from the one that
// came. It names a place, never a value.
type Change struct {
	Kind   ChangeKind
	Name   string // of the field, parameter or trailer; "" where it may not be told
	Answer bool   // of the answer; otherwise of the request
}

// ChangeKind says what was done. The list is closed: what is not on it may not
// be done to a message.
type ChangeKind string

// The kinds. "Removed" means all values of the field.
const (
	ChangeHop             ChangeKind = "hop_by_hop"        // a field of one connection, removed; of TE "trailers" stays (RFC 9110 section 7.6.1)
	ChangeNamed           ChangeKind = "connection_named"  // a field that Connection names, removed
	ChangeProxy           ChangeKind = "proxy_field"       // a Proxy- field, removed; of an answer Proxy-Status stays (RFC 9209)
	ChangeKimbap          ChangeKind = "kimbap_field"      // an X-Kimbap- field, removed
	ChangeMisleading      ChangeKind = "misleading"        // a field that makes some servers act on another target, removed
	ChangeCallerKey       ChangeKind = "caller_credential" // the caller's own credential, removed
	ChangeCredential      ChangeKind = "credential"        // the stored credential, put into a field
	ChangeCredentialQuery ChangeKind = "credential_query"  // the same, into a query parameter
	ChangeCredentialBody  ChangeKind = "credential_body"   // the same, into a member of the body
	ChangePlaceholder     ChangeKind = "placeholder"       // the service's own placeholder in a field of a form, removed with the field
	ChangeCredentialPath  ChangeKind = "credential_path"   // the same, into a segment of the path; Name is its number, from 1
	ChangeHost            ChangeKind = "host"              // Host is the canonical authority without the scheme's own port
	ChangeTarget          ChangeKind = "target_form"       // the absolute form of the target became the origin form
	ChangeFraming         ChangeKind = "framing"           // Content-Length: 0, Connection: close or a spelling of a framing field
	ChangeUpgrade         ChangeKind = "upgrade"           // Connection and Upgrade, written anew
	ChangeTrailer         ChangeKind = "trailer_dropped"   // a trailer field that no trailer may be, or its announcement
	ChangeScrubbed        ChangeKind = "scrubbed"          // the credential in a field's value, overwritten
	ChangeScrubbedBody    ChangeKind = "scrubbed_body"     // the credential in the body, overwritten
	ChangeScrubbedName    ChangeKind = "scrubbed_name"     // a field or announcement dropped, since its name held the credential
	ChangeImplied         ChangeKind = "implied"           // Cache-Control: no-cache, which net/http reads out of Pragma: no-cache (RFC 9111 section 5.4)
)

// Notable reports whether the change goes into the record: what a caller sent
// to the upstream, and the upstream did not get. The other changes are made to
// every message of their sort.
func (c Change) Notable() bool {
	if c.Answer {
		return false
	}
	return c.Kind == ChangeMisleading || c.Kind == ChangeKimbap || c.Kind == ChangeCallerKey || c.Kind == ChangeTrailer
}

// Declare adds a change, once.
func (r *Result) Declare(c Change) {
	if !slices.Contains(r.Changed, c) {
		r.Changed = append(r.Changed, c)
	}
}

// NotableChanges returns the names of the notable changes, sorted.
func (r *Result) NotableChanges() []string {
	var names []string
	for _, c := range r.Changed {
		if c.Notable() {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}
