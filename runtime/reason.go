package runtime

// Reason is the finer cause under a [Code], also a closed list: this file.
type Reason string

// The reasons.
const (
	ReasonAmbiguousParameter   Reason = "ambiguous_parameter"   // one argument in both query and body, or a value that decides the action and that readers take differently
	ReasonBeingExecuted        Reason = "being_executed"        // another request executes this approval now, and gets the answer
	ReasonBodyTooLarge         Reason = "body_too_large"        // a body that must be judged, or a response that must be kept whole, is over its limit
	ReasonClientRejected       Reason = "tls_client_rejected"   // a program rejected kimbap's certificate
	ReasonCondition            Reason = "condition_failed"      // a rule's condition cannot be judged, which denies
	ReasonContentChanged       Reason = "content_changed"       // a file is not the one that was pinned or shown
	ReasonDotSegment           Reason = "dot_segment"           // "." or ".." in any encoding
	ReasonDuplicateKey         Reason = "duplicate_key"         // a JSON member occurs twice
	ReasonDuplicateParameter   Reason = "duplicate_parameter"   // a query or form field occurs twice
	ReasonEmptySegment         Reason = "empty_segment"         // "//" in a path
	ReasonExecutedAlready      Reason = "executed_already"      // an approval is executed once, and this one was
	ReasonExpectation          Reason = "expectation_failed"    // an Expect other than 100-continue
	ReasonForeignPeer          Reason = "foreign_peer"          // a loopback peer is not known to be the owner's
	ReasonForeignPlaceholder   Reason = "foreign_placeholder"   // a placeholder outside the place where its own service takes the key
	ReasonHeaderTooLarge       Reason = "header_too_large"      // the header section is over its limit
	ReasonInsecureScheme       Reason = "insecure_scheme"       // cleartext where TLS is required
	ReasonInvalidHost          Reason = "invalid_host"          // an authority that has no canonical form
	ReasonInvalidJSON          Reason = "invalid_json"          // not exactly one strict JSON document
	ReasonInvalidTarget        Reason = "invalid_target"        // bad escape, control byte, backslash, fragment
	ReasonMethodNotAllowed     Reason = "method_not_allowed"    // TRACE, CONNECT inside a tunnel, or an API page that takes another method
	ReasonMethodOverride       Reason = "method_override"       // X-HTTP-Method-Override or similar
	ReasonNotCertified         Reason = "not_certified"         // kimbap may not make a certificate for the host
	ReasonNotOperator          Reason = "not_an_operator"       // an agent asked for what only an operator may do
	ReasonNoToken              Reason = "no_token"              // a token is required here, or Authorization shows none
	ReasonNotGranted           Reason = "not_granted"           // an OAuth provider granted nothing, or a person did not agree
	ReasonOtherPage            Reason = "other_page"            // a web page of another origin has a browser ask for what only programs get
	ReasonOAuthRefreshFailed   Reason = "oauth_refresh_failed"  // an OAuth provider gives no new access token
	ReasonOverLimit            Reason = "over_limit"            // a rate limit of a policy rule is exhausted
	ReasonPathParameter        Reason = "path_parameter"        // ";" in a fixed path segment
	ReasonPortDenied           Reason = "port_denied"           // a port that raw tunnels may not reach
	ReasonReflectedSecret      Reason = "reflected_secret"      // the response contained the credential
	ReasonScope                Reason = "scope"                 // outside the token's scopes
	ReasonScrubImpossible      Reason = "scrub_impossible"      // an encoding that kimbap cannot scan, with upstream.scrub: strict
	ReasonSelfConnection       Reason = "self_connection"       // a connection to one of kimbap's own listeners
	ReasonStorageUnavailable   Reason = "storage_unavailable"   // the store did not answer
	ReasonTokenExpired         Reason = "token_expired"         // the token has expired
	ReasonTokenRevoked         Reason = "token_revoked"         // the token was revoked
	ReasonTokenUnknown         Reason = "token_unknown"         // no such token exists
	ReasonTrailingData         Reason = "trailing_data"         // bytes after the JSON document
	ReasonTruncated            Reason = "upstream_truncated"    // the response broke off before its end
	ReasonTunnelNotAllowed     Reason = "tunnel_not_allowed"    // a raw tunnel that is neither TLS nor HTTP
	ReasonTunnelUnopened       Reason = "tunnel_unopened"       // no TLS and no request followed a CONNECT to a host of a service
	ReasonUnattended           Reason = "unattended"            // approval is needed, and there is nobody to ask
	ReasonUnmatched            Reason = "unmatched"             // a service's host, but none of its actions
	ReasonUnsupportedMedia     Reason = "unsupported_media"     // a body that must be judged, in a format that kimbap does not read
	ReasonUpgradeNotAllowed    Reason = "upgrade_not_allowed"   // the action has websocket: false, or the upgrade is to another protocol
	ReasonUpstreamUnavailable  Reason = "upstream_unavailable"  // connection refused, unreachable, or no such host
	ReasonWithoutConnect       Reason = "without_connect"       // TLS, or a request with an https URL, to the proxy itself instead of CONNECT
	ReasonPolicyChanged        Reason = "policy_changed"        // allowed when asked, denied when used
	ReasonTampered             Reason = "tampered"              // a stored record does not verify
	ReasonTooManyPending       Reason = "too_many_pending"      // one caller has too many open approvals
	ReasonWrongMasterKey       Reason = "wrong_master_key"      // the key check value does not match
	ReasonTooManyConnections   Reason = "too_many_connections"  // one principal has too many open
	ReasonTooManyRequests      Reason = "too_many_requests"     // one principal has too many in flight, too much in bodies or compressed responses to search, or too many scripts waiting on disk; or one address sent too many unknown tokens
	ReasonAtCapacity           Reason = "at_capacity"           // all principals together use all there is
	ReasonNoMasterKey          Reason = "no_master_key"         // the key file is missing
	ReasonKeyUnavailable       Reason = "key_unavailable"       // whatever keeps the master key does not respond
	ReasonLocked               Reason = "locked"                // the owner locked the vault (kimbap lock)
	ReasonReference            Reason = "reference_failed"      // another store did not supply the credential
	ReasonKeyRefused           Reason = "key_refused"           // the service does not accept the key to be stored
	ReasonPortInUse            Reason = "port_in_use"           // something else already listens there
	ReasonNotFound             Reason = "not_found"             // what was named does not exist
	ReasonNoHome               Reason = "no_home"               // there is no home folder yet
	ReasonOpenHome             Reason = "open_home"             // others can read the home
	ReasonPresenceRequired     Reason = "presence_required"     // accepting takes a PIN
	ReasonWrongPIN             Reason = "wrong_pin"             // a wrong PIN, or too many of them
	ReasonPreconditionRequired Reason = "precondition_required" // a write must name what it replaces (RFC 6585 section 3)
	ReasonPreconditionFailed   Reason = "precondition_failed"   // what would be replaced is not what was named (RFC 9110 section 13.1.1)
	ReasonRequestTimeout       Reason = "request_timeout"       // a request of the API or a form of the console did not arrive in time
	ReasonIdempotency          Reason = "idempotency_key"       // the same Idempotency-Key came with a different request
	ReasonReadOnly             Reason = "read_only"             // kept in files, which cannot be changed over the network
	ReasonOwnRequest           Reason = "own_request"           // a token may not decide what it asked for itself
	ReasonNotApprover          Reason = "not_an_approver"       // the rule requires other people, or more of them
)
