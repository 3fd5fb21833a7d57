package services

import (
	"net/url"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// ownParams are parameters of a sign-in that kimbap sets, and no file (RFC 6749 section 4.1.1,
// RFC 7636), or that would stand in their place (RFC 9101).
var ownParams = []string{"response_type", "response_mode", "client_id", "client_secret", "redirect_uri", "state", "scope", "code_challenge", "code_challenge_method", "request", "request_uri"}

// clientParams are parameters of the question for a token that kimbap sets, and no file (RFC 6749
// section 4.4.2), or that show a client otherwise (RFC 7521).
var clientParams = []string{"grant_type", "client_assertion", "client_assertion_type", "assertion"}

// oauth reads where the access tokens of a service come from.
func (p *parser) oauth(n *yaml.Node) *runtime.OAuth {
	o := p.object(n, "auth.oauth2", "grant", "authorize_url", "token_url", "device_url", "revoke_url", "issuer", "scopes", "client_auth", "params")
	o.needed("token_url", "add token_url: https://login.example.com/token")
	out := &runtime.OAuth{
		Grant:        o.oneOf("grant", "", runtime.GrantClientCredentials),
		AuthorizeURL: p.endpoint(o, "authorize_url"), TokenURL: p.endpoint(o, "token_url"), DeviceURL: p.endpoint(o, "device_url"), RevokeURL: p.endpoint(o, "revoke_url"), Issuer: p.endpoint(o, "issuer"),
		Scopes: o.texts("scopes"), ClientAuth: o.oneOf("client_auth", "basic", "basic", "post"),
	}
	p.whoAgrees(o, out)
	if strings.Contains(out.Issuer, "?") {
		p.bad(o.at("issuer"), "write it as the provider's metadata has it: https://login.example.com", "auth.oauth2.issuer has a query (RFC 8414 section 2)")
	}
	if out.Issuer != "" && out.AuthorizeURL == "" && !out.OfClient() {
		p.bad(o.at("issuer"), "add authorize_url, or leave issuer out", "auth.oauth2.issuer is of a sign-in in a browser, and this service has none")
	}
	for _, scope := range out.Scopes {
		if strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			p.bad(o.at("scopes"), "write one scope in each entry of the list", "%s is not a scope (RFC 6749 section 3.3)", shown(scope))
		}
	}
	for _, param := range o.pairs("params") {
		if slices.Contains(ownParams, param.name) || out.OfClient() && slices.Contains(clientParams, param.name) {
			p.bad(param.key, "leave it out", "auth.oauth2.params.%s is set by kimbap itself", param.name)
		}
		out.Params = append(out.Params, runtime.Pair{Name: param.name, Text: p.textOf(param.value, "auth.oauth2.params."+param.name)})
	}
	return out
}

// whoAgrees has a place where a person signs in, or no person.
func (p *parser) whoAgrees(o *object, out *runtime.OAuth) {
	if !out.OfClient() {
		if o.get("authorize_url") == nil && o.get("device_url") == nil && o.get("grant") == nil { // one that is misspelt is told
			p.bad(o.node, "add authorize_url: https://login.example.com/authorize, or device_url; for a client without a person grant: client_credentials", "auth.oauth2 has no place where a person signs in")
		}
		return
	}
	for _, field := range []string{"authorize_url", "device_url", "issuer"} {
		if n := o.get(field); n != nil {
			p.bad(n, "leave it out, or leave grant out", "%s is of a sign-in, and with grant client_credentials no person signs in", o.label(field))
		}
	}
}

// endpoint reads the address of a provider: TLS, or this machine.
func (p *parser) endpoint(o *object, field string) string {
	text := o.text(field)
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || strings.Contains(text, "#") {
		p.bad(o.at(field), "write it like https://login.example.com/token", "%s is not the URL of an endpoint", o.label(field))
		return ""
	}
	authority, err := classifier.CanonicalAuthority(u.Host, defaultPort(u.Scheme))
	switch {
	case err != nil:
		p.bad(o.at(field), hostFix, "%s: %s", o.label(field), message(err))
	case u.Scheme != "https" && !(u.Scheme == "http" && IsLoopback(authority)):
		p.bad(o.at(field), "start it with https://", "%s goes over TLS, or to this machine (RFC 6749 section 3.1)", o.label(field))
	default:
		query, err := url.ParseQuery(u.RawQuery)
		if err != nil {
			p.bad(o.at(field), "encode it as in ?hd=example.com", "%s has a query that is none", o.label(field))
		}
		for param := range query {
			if slices.Contains(ownParams, param) {
				p.bad(o.at(field), "leave it out", "%s has the parameter %s, which kimbap itself sets", o.label(field), param)
			}
		}
		return text
	}
	return ""
}
