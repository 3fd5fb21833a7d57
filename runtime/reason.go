package runtime

// Reason is the finer cause under a [Code], also a closed list: this file.
type Reason string

// The reasons.
const (
	ReasonAmbiguousParameter   Reason = "ambiguous_parameter"   // one argument in query and body, or a deciding value that readers take differently
	ReasonBodyTooLarge         Reason = "body_too_large"        // a body that must be judged is over its limit, or an answer that is kept whole
	ReasonClientRejected       Reason = "tls_client_rejected"   // a program that did not take our certificate
	ReasonCondition            Reason = "condition_failed"      // a rule's condition that cannot be judged, which denies
	ReasonContentChanged       Reason = "content_changed"       // a fetched file is not the one that was pinned
	ReasonDotSegment           Reason = "dot_segment"           // "." or ".." in any encoding
	ReasonDuplicateKey         Reason = "duplicate_key"         // one JSON member twice
	ReasonDuplicateParameter   Reason = "duplicate_parameter"   // one query or form field twice
	ReasonEmptySegment         Reason = "empty_segment"         // "//" in a path
	ReasonExpectation          Reason = "expectation_failed"    // an Expect other than 100-continue
	ReasonForeignPeer          Reason = "foreign_peer"          // a loopback peer that is not the owner
	ReasonForeignPlaceholder   Reason = "foreign_placeholder"   // a placeholder outside its own service's place
	ReasonHeaderTooLarge       Reason = "header_too_large"      // head over its limit
	ReasonInsecureScheme       Reason = "insecure_scheme"       // cleartext where TLS is required
	ReasonInvalidHost          Reason = "invalid_host"          // an authority that cannot be made canonical
	ReasonInvalidJSON          Reason = "invalid_json"          // not one strict JSON document
	ReasonInvalidTarget        Reason = "invalid_target"        // bad escape, control byte, backslash, fragment
	ReasonMethodNotAllowed     Reason = "method_not_allowed"    // TRACE, CONNECT inside a tunnel, a page of the API that takes another method
	ReasonMethodOverride       Reason = "method_override"       // X-HTTP-Method-Override and kin
	ReasonNotCertified         Reason = "not_certified"         // no certificate may be made for the host
	ReasonNotOperator          Reason = "not_an_operator"       // an agent asked for what only an operator may do
	ReasonNoToken              Reason = "no_token"              // a token is required here
	ReasonOverLimit            Reason = "over_limit"            // a rate limit of a policy rule is used up
	ReasonPathParameter        Reason = "path_parameter"        // ";" in a literal segment
	ReasonPortDenied           Reason = "port_denied"           // a port that raw tunnels may not reach
	ReasonReflectedSecret      Reason = "reflected_secret"      // the answer held the credential
	ReasonScope                Reason = "scope"                 // outside the token's scopes
	ReasonScrubImpossible      Reason = "scrub_impossible"      // an encoding we cannot scan, with upstream.scrub: strict
	ReasonSelfConnection       Reason = "self_connection"       // a dial to one of our own listeners
	ReasonStorageUnavailable   Reason = "storage_unavailable"   // the store did not answer
	ReasonTokenExpired         Reason = "token_expired"         // the token is too old
	ReasonTokenRevoked         Reason = "token_revoked"         // the token was revoked
	ReasonTokenUnknown         Reason = "token_unknown"         // no such token
	ReasonTrailingData         Reason = "trailing_data"         // bytes after the JSON document
	ReasonTruncated            Reason = "upstream_truncated"    // the answer ended before its end
	ReasonTunnelNotAllowed     Reason = "tunnel_not_allowed"    // a raw tunnel that is neither TLS nor HTTP
	ReasonTunnelUnopened       Reason = "tunnel_unopened"       // a CONNECT to a host of a service that no TLS and no request followed
	ReasonUnattended           Reason = "unattended"            // approval needed, nobody to ask
	ReasonUnmatched            Reason = "unmatched"             // a service's host, but none of its actions
	ReasonUnsupportedMedia     Reason = "unsupported_media"     // a body that must be judged, in a form we do not read
	ReasonUpgradeNotAllowed    Reason = "upgrade_not_allowed"   // websocket: false
	ReasonUpstreamUnavailable  Reason = "upstream_unavailable"  // refused, unreachable, no such host
	ReasonPolicyChanged        Reason = "policy_changed"        // allowed when asked, denied when used
	ReasonTampered             Reason = "tampered"              // a stored record that does not verify
	ReasonTooManyPending       Reason = "too_many_pending"      // the cap on one caller's open approvals
	ReasonWrongMasterKey       Reason = "wrong_master_key"      // the key check value does not match
	ReasonTooManyConnections   Reason = "too_many_connections"  // of one principal
	ReasonTooManyRequests      Reason = "too_many_requests"     // in flight of one principal, or their bodies, or compressed answers to be searched, or scripts that wait on disk; or tokens of one address that nobody knows
	ReasonAtCapacity           Reason = "at_capacity"           // all principals together have what there is
	ReasonNoMasterKey          Reason = "no_master_key"         // the key file is gone
	ReasonKeyUnavailable       Reason = "key_unavailable"       // what keeps the master key does not answer
	ReasonLocked               Reason = "locked"                // the owner locked the vault (kimbap lock)
	ReasonReference            Reason = "reference_failed"      // another store did not give a credential
	ReasonKeyRefused           Reason = "key_refused"           // the service does not accept the key that is to be stored
	ReasonPortInUse            Reason = "port_in_use"           // somebody listens there already
	ReasonNotFound             Reason = "not_found"             // what was named does not exist
	ReasonNoHome               Reason = "no_home"               // no home folder yet
	ReasonOpenHome             Reason = "open_home"             // a home that others can read
	ReasonPresenceRequired     Reason = "presence_required"     // whoever accepts must show a PIN
	ReasonWrongPIN             Reason = "wrong_pin"             // a wrong PIN, or too many of them
	ReasonPreconditionRequired Reason = "precondition_required" // a write that must name what it replaces (RFC 6585 section 3)
	ReasonPreconditionFailed   Reason = "precondition_failed"   // what is replaced is not what was named (RFC 9110 section 13.1.1)
	ReasonIdempotency          Reason = "idempotency_key"       // another request came under the same Idempotency-Key
	ReasonReadOnly             Reason = "read_only"             // kept in files, which nothing over the network changes
	ReasonOwnRequest           Reason = "own_request"           // nobody decides what it asked for itself
	ReasonNotApprover          Reason = "not_an_approver"       // the rule wants other people, or more of them
)
