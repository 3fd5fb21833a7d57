// Package connector turns a stored OAuth grant into an access token that is good now: stage
// 4 of the pipeline, between the vault and the request.
//
// A grant is a credential like any other to the vault, which seals it: what the provider
// gave, who we are there, and where new tokens come from. Whoever asks for the credential
// gets the access token alone, whatever place the service has for it; the refresh token and
// the client's secret go to the token endpoint of the grant and nowhere else.
//
// One process at a time renews a grant: a provider may take a refresh token once. A token
// that is still good stays in use while the provider fails; a provider that fails is left
// alone for some seconds; one that says that the grant is over is not asked again until
// somebody signs in anew. Nothing that a provider says reaches a caller.
//
// It also asks for grants: with a browser (RFC 6749 section 4.1 with PKCE, RFC 7636, back to a
// port of this machine, RFC 8252), on another device (RFC 8628) or, without a person, for the client
// itself (RFC 6749 section 4.4), and gives them back (RFC 7009).
//
// Start reading at [Connector.Credential], then refresh.go; for sign-ins at [Connector.Begin].
package connector
