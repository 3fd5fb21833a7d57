package connector

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// noProof is what helps where a provider binds tokens to a key of the client.
const noProof = "the provider demands DPoP (RFC 9449), which kimbap does not do: allow this client plain bearer tokens there"

// agreements are what helps where a provider comes back without a code (RFC 6749 section 4.1.2.1,
// OpenID Connect Core section 3.1.2.6).
var agreements = map[string]string{
	"invalid_scope":             "the provider has no such scopes for this client: correct the scopes of the service file, or name others with --scope",
	"unauthorized_client":       "allow this client the authorization code grant at the provider, then start again",
	"unsupported_response_type": "allow this client the authorization code grant at the provider, then start again",
	"invalid_request":           "correct params in the service file; a provider that takes pushed or signed requests alone (RFC 9126, RFC 9101) must allow this client plain ones",
	"invalid_target":            "correct resource in the params of the service file (RFC 8707)",
	"server_error":              "the provider failed: start again later",
	"temporarily_unavailable":   "the provider failed: start again later",
	"expired_token":             "start again, and be quicker: the code has ended",
}

// agreement is what helps against such a code.
func agreement(code string) string {
	switch advice, known := agreements[code]; {
	case known:
		return advice
	case !isCode(code) || code == "access_denied":
		return "start again, and agree on the page of the provider"
	case slices.Contains([]string{"login_required", "consent_required", "interaction_required", "account_selection_required"}, code):
		return "take prompt out of the params of the service file: the provider must ask a person"
	}
	return "the provider's documentation says what " + code + " is about; then correct the service file, or the client there"
}

// notGranted is the error of a sign-in that ended without a grant. What the browser brought
// may be anybody's: of it only a code of RFC 6749 section 4.1.2.1 is repeated.
func notGranted(code string) *runtime.Error {
	advice := agreement(code)
	if !isCode(code) {
		code = "no code came"
	}
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonNotGranted, Stage: runtime.StageCredential,
		Msg: "the provider granted nothing: " + code, Hint: advice,
	}
}

// toClients are what helps where a client asks for itself.
var toClients = map[string]string{
	"unauthorized_client":    "allow this client the client credentials grant at the provider, then start again",
	"unsupported_grant_type": "the provider does no client credentials: take grant out of the service file, and name where a person signs in",
	"access_denied":          "allow this client the API at the provider, and name the API in the params of the service file: audience or resource",
	"invalid_grant":          "allow this client the client credentials grant at the provider, with a user if that wants one, then start again",
}

// errCode is of a code, of a browser or of another device, that gives no grant; errType of a
// token that is more than its text.
var (
	errCode = errors.New("it did not take the code (invalid_grant)")
	errType = errors.New("the provider gave a token that is not of the type Bearer")
)

// notSignedIn is the error of a sign-in to which the provider gave no token.
func (s *SignIn) notSignedIn(cause error) error {
	advice := "check the client's id and secret, and that this redirect address is registered for it; then start again"
	if s.redirect == "" {
		advice = "check the client's id and secret, and that the provider allows it this kind of grant; then start again"
	}
	var refused *refusal
	switch {
	case s.grant.ofClient() && errors.As(cause, &refused) && toClients[refused.code] != "":
		advice = toClients[refused.code]
	case errors.Is(cause, errType):
		advice = "kimbap sends plain bearer tokens, with no DPoP, MAC or the like: allow this client those at the provider; one that you have is stored by kimbap link SERVICE --token"
	case errors.Is(cause, errCode):
		advice = "start again, and agree at once; if it comes back, the provider may demand DPoP or another proof, which kimbap does not do"
	case errors.As(cause, new(*url.Error)), errors.As(cause, new(silent)):
		advice = "check the network, and the addresses of auth.oauth2 in the service file; then start again"
	case errors.As(cause, new(*unreadable)):
		advice = addresses(advice)
	case !errors.As(cause, &refused):
	case refused.elsewhere():
		advice = addresses(advice)
	case slices.Contains([]string{"use_dpop_nonce", "invalid_dpop_proof"}, refused.code):
		advice = noProof
	case slices.Contains(clientCodes, refused.code):
		advice = "check the client's id and secret, and auth.oauth2.client_auth of the service file, basic or post, which is how they are shown; then start again"
	case slices.Contains([]string{"invalid_scope", "invalid_target"}, refused.code):
		advice = agreement(refused.code)
	case refused.status == http.StatusTooManyRequests && refused.after > 0:
		advice = "the provider is asked too often: start again in " + runtime.Span(refused.after)
	case refused.status == http.StatusTooManyRequests:
		advice = "the provider is asked too often: start again later"
	case refused.passes():
		advice = "the provider failed: start again later"
	}
	return &runtime.Error{
		Code: runtime.CodeUpstream, Reason: runtime.ReasonNotGranted, Stage: runtime.StageCredential,
		Msg: "the provider gave no token: " + cause.Error(), Hint: hint(cause, advice), Err: cause,
	}
}

// addresses adds to an advice that the question may have gone to a wrong place.
func addresses(advice string) string {
	return strings.Replace(advice, "; then start again", ", and the addresses of auth.oauth2 in the service file; then start again", 1)
}

// elsewhere reports whether a refusal is rather one of a wrong address than of a provider.
func (r *refusal) elsewhere() bool {
	gone := []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone}
	return r.code == "" && (r.status/100 == 3 || slices.Contains(gone, r.status))
}

// renewable is what helps against a renewal that failed.
func renewable(cause error) string {
	var refused *refusal
	switch {
	case !errors.As(cause, &refused) || refused.passes():
		return "try again in a moment"
	case slices.Contains(clientCodes, refused.code):
		return "the provider does not take the client of this grant: the owner of this kimbap mends it there, or signs in anew: kimbap link SERVICE --client FILE"
	}
	return "try again in a moment; if it comes back, the owner of this kimbap signs in anew: kimbap link SERVICE"
}

// passes reports whether a refusal may be gone in a moment.
func (r *refusal) passes() bool {
	switch {
	case r.status >= http.StatusInternalServerError, r.status == http.StatusTooManyRequests, r.status == http.StatusRequestTimeout:
		return true
	}
	return slices.Contains([]string{"temporarily_unavailable", "server_error", "slow_down"}, r.code)
}

// hint is what helps: what kimbap itself says of the way to the provider, or else this. What is
// wrong with a file of the home is the log's, since agents are shown it.
func hint(cause error, otherwise string) string {
	var own *runtime.Error
	if errors.As(cause, &own) && own.Hint != "" && own.Code != runtime.CodeInvalidInput {
		return own.Msg + ": " + own.Hint
	}
	return otherwise
}
