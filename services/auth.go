package services

import (
	"net/http"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// authFields says for each type which fields of auth: it takes beside type.
func authFields(t runtime.AuthType) (needed, optional []string) {
	optional = []string{"caller", "keep_if"}
	switch t {
	case runtime.AuthBearer:
		return []string{"credential_ref"}, append(optional, "form_field")
	case runtime.AuthOAuth2:
		return []string{"credential_ref", "oauth2"}, optional
	case runtime.AuthHeader:
		return []string{"credential_ref", "header"}, append(optional, "form_field")
	case runtime.AuthQuery:
		return []string{"credential_ref", "query"}, optional
	case runtime.AuthBody:
		return []string{"credential_ref", "body"}, optional
	case runtime.AuthPath:
		return []string{"credential_ref", "path"}, optional
	case runtime.AuthBasic:
		return []string{"basic"}, append(optional, "credential_ref")
	}
	return nil, nil
}

func (p *parser) auth(o *object) {
	p.s.Auth = &runtime.Auth{Type: runtime.AuthNone}
	n := o.get("auth")
	if n == nil {
		return
	}
	fields := []string{"type", "credential_ref", "caller", "keep_if", "form_field", "header", "query", "body", "path", "basic", "oauth2"}
	a := p.object(n, "auth", fields...)
	if a.needed("type", "add type: bearer, or type: none") == "" {
		return
	}
	t := runtime.AuthType(a.oneOf("type", "", "none", "header", "bearer", "basic", "query", "body", "path", "oauth2"))
	if t == "" {
		return
	}
	p.s.Auth.Type = t
	required, optional := authFields(t)
	for _, f := range required {
		if a.get(f) == nil {
			p.badField(a.at(f), "auth."+f, authFix(f), "auth type %s needs the field %s", t, f)
		}
	}
	for _, f := range fields[1:] {
		if n := a.get(f); n != nil && !slices.Contains(required, f) && !slices.Contains(optional, f) {
			p.bad(n, "leave it out", "auth type %s has no field %s", t, f)
		}
	}
	if t == runtime.AuthNone {
		return
	}
	p.s.Auth.Ref = p.vaultName(a, "credential_ref")
	p.s.Auth.Caller = runtime.CallerAuth(a.oneOf("caller", "replace", "replace", "placeholder", "keep"))
	p.s.Auth.Form = a.text("form_field")
	p.s.Auth.KeepIf = runtime.Glob(a.text("keep_if"))
	if strings.Trim(string(p.s.Auth.KeepIf), "*") == "" && a.get("keep_if") != nil {
		p.bad(a.at("keep_if"), "write the start of the value, like sk-ant-oat*, or use caller: keep", "auth.keep_if matches every value")
	}
	p.place(a)
}

// authFix shows how a missing field of auth: is written.
func authFix(field string) string {
	switch field {
	case "header":
		return "add header: {name: X-Api-Key}"
	case "query":
		return "add query: {name: key}"
	case "body":
		return "add body: {field: api_key}"
	case "path":
		return "add path: {segment: token}, and {token} to the paths of the actions"
	case "oauth2":
		return "add oauth2: {authorize_url: https://login.example.com/authorize, token_url: https://login.example.com/token, scopes: [read]}"
	case "basic":
		return "add basic: {username: the-user, password_ref: name-in-the-vault}"
	}
	return "add credential_ref: with the secret's name in the vault, like github.token"
}

// place reads where the credential goes.
func (p *parser) place(a *object) {
	auth := p.s.Auth
	switch auth.Type {
	case runtime.AuthHeader:
		if n := a.get("header"); n != nil {
			h := p.object(n, "auth.header", "name", "prefix")
			auth.Header, auth.Prefix = http.CanonicalHeaderKey(h.needed("name", "add name: X-Api-Key")), h.text("prefix")
			if auth.Header != "" {
				p.checkHeader(h.at("name"), "auth.header.name", auth.Header)
				if auth.Header == "Content-Type" {
					p.bad(h.at("name"), "write the field that the API reads the key from, like X-Api-Key", "auth.header.name may not be Content-Type: it describes the body")
				}
			}
			p.checkHeaderText(h.at("prefix"), "auth.header.prefix", auth.Prefix)
		}
	case runtime.AuthQuery:
		if n := a.get("query"); n != nil {
			auth.Query = p.object(n, "auth.query", "name").needed("name", "add name: key")
		}
	case runtime.AuthBody:
		if n := a.get("body"); n != nil {
			auth.Field = p.object(n, "auth.body", "field").needed("field", "add field: api_key")
		}
	case runtime.AuthPath:
		if n := a.get("path"); n != nil {
			p.segment(p.object(n, "auth.path", "segment", "prefix"))
		}
	case runtime.AuthOAuth2:
		if n := a.get("oauth2"); n != nil {
			auth.OAuth = p.oauth(n)
		}
	case runtime.AuthBasic:
		if n := a.get("basic"); n != nil {
			p.basic(p.object(n, "auth.basic", "username", "username_ref", "username_open", "password_ref"))
		}
	}
}

// segment reads which placeholder of the paths stands for the credential.
func (p *parser) segment(o *object) {
	auth := p.s.Auth
	auth.Segment, auth.Prefix = o.needed("segment", "add segment: token"), o.text("prefix")
	if auth.Segment != "" && !request.IsName(auth.Segment) {
		p.bad(o.at("segment"), "use letters, digits and underscores", "auth.path.segment %s is not a name for a placeholder", shown(auth.Segment))
	}
	for i := range len(auth.Prefix) {
		if c := auth.Prefix[i]; !request.NameByte(c) {
			p.bad(o.at("prefix"), "use letters, digits, underscores, hyphens and dots", "auth.path.prefix may hold plain letters only: it stands in a path")
			return
		}
	}
}

func (p *parser) basic(b *object) {
	auth := p.s.Auth
	auth.Username, auth.UsernameRef = b.text("username"), p.vaultName(b, "username_ref")
	if (auth.Username == "") == (auth.UsernameRef == "") {
		p.bad(b.node, "add username: with the name itself, or username_ref: with its name in the vault", "auth.basic needs one of username and username_ref")
	}
	if strings.ContainsAny(auth.Username, ":\r\n\x00") {
		p.bad(b.at("username"), "write the name alone, and the password in the vault: password_ref", "auth.basic.username may have no colon and no line break (RFC 7617)")
	}
	if auth.UsernameOpen = b.boolean("username_open", false); auth.UsernameOpen && auth.UsernameRef == "" {
		p.bad(b.at("username_open"), "leave it out", "auth.basic.username_open is about a name in the vault, and there is no username_ref")
	}
	password := p.vaultName(b, "password_ref")
	switch {
	case password == "" && auth.Ref == "":
		p.bad(b.node, "add password_ref: name-in-the-vault", "auth.basic needs the field password_ref")
	case password != "" && auth.Ref != "" && password != auth.Ref:
		p.bad(b.at("password_ref"), "keep one of the two", "password_ref and credential_ref name two different secrets")
	case password != "":
		auth.Ref = password
	}
}

// vaultName reads a field that names a secret.
func (p *parser) vaultName(o *object, field string) string {
	name := o.text(field)
	for i := range len(name) {
		c := name[i]
		if !letter(c) && (c < '0' || c > '9') && (i == 0 || !strings.ContainsRune("._-/", rune(c))) {
			p.bad(o.at(field), "use letters, digits, dots, hyphens and underscores, like github.token", "%s is not a name of a secret", o.label(field))
			return ""
		}
	}
	return name
}

func (p *parser) placeholders(o *object) {
	pairs := o.pairs("placeholders")
	for _, v := range pairs {
		value := p.textOf(v.value, "placeholders."+v.name)
		switch {
		case !isVariable(v.name):
			p.bad(v.key, "use capitals, digits and underscores, like GITHUB_TOKEN", "%s is not the name of an environment variable", shown(v.name))
		case !holdsKey(v.name):
			p.bad(v.key, "name the variable that holds the key, like GITHUB_TOKEN",
				"placeholders.%s: a variable that holds a key ends in _TOKEN, _KEY, _KEY_ID, _SECRET, _PASSWORD, _PASS, _PAT or _AUTH, and does not begin with KIMBAP_", v.name)
		case len(value) < leastMark || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }):
			p.bad(v.value, "write a value that no real key has, like ghp_kimbap", "placeholders.%s must be at least %d printable characters", v.name, leastMark)
		case strings.ContainsFunc(value, outsideTokens):
			p.bad(v.value, "write a value that no real key has, like ghp_kimbap", "placeholders.%s may have letters, digits and -._~+/=:@ alone, as tokens do", v.name)
		}
		if p.s.Placeholders == nil {
			p.s.Placeholders = map[string]string{}
		}
		p.s.Placeholders[v.name] = value
	}
	p.s.Auth.Placeholders = p.s.Placeholders
	if p.s.Auth.Caller == runtime.CallerPlaceholder && len(pairs) == 0 {
		p.bad(o.at("auth"), "add placeholders: {EXAMPLE_TOKEN: example_kimbap}", "auth.caller placeholder needs placeholders, and there are none")
	}
}

func isVariable(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && c != '_' && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// holdsKey reports whether a variable is named as those are that hold a key. Others may
// decide what is run, and where requests go, in every shell that kimbap env is evaluated
// in: LD_PRELOAD, NODE_OPTIONS, GIT_SSH_COMMAND, HTTPS_PROXY. No list of these is complete.
func holdsKey(name string) bool {
	if strings.HasPrefix(name, "KIMBAP_") {
		return false
	}
	switch last := name[strings.LastIndexByte(name, '_')+1:]; last {
	case "TOKEN", "KEY", "SECRET", "PASSWORD", "PASS", "PAT", "AUTH":
		return true
	}
	return strings.HasSuffix(name, "_KEY_ID")
}

// outsideTokens reports whether tokens do not have a character. Some shells have no quoting
// for such: in cmd.exe a quotation mark ends the text, and what follows may be a command.
func outsideTokens(r rune) bool {
	return r > '~' || !letter(byte(r)) && (r < '0' || r > '9') && !strings.ContainsRune("-._~+/=:@", r)
}

// framing reports whether a header field belongs to the connection or frames
// the message (RFC 9110 sections 7.6.1 and 8.6, RFC 9112 section 6), so that
// neither a credential nor a mapping may write it.
func framing(name string) bool {
	switch name {
	case "Host", "Connection", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade",
		"Keep-Alive", "Expect", "Http2-Settings", "Content-Encoding":
		return true
	}
	return strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, ":")
}

// override reports whether a field asks for another method than the request line.
func override(name string) bool {
	switch name {
	case "X-Http-Method-Override", "X-Http-Method", "X-Method-Override":
		return true
	}
	return false
}

// checkHeader checks a field that the service writes: the credential's or a
// mapped one.
func (p *parser) checkHeader(n *yaml.Node, what, name string) {
	for i := range len(name) {
		if c := name[i]; !letter(c) && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			p.bad(n, "use letters, digits and hyphens, like X-Api-Key", "%s %s is not a header field name (RFC 9110 section 5.1)", what, shown(name))
			return
		}
	}
	if framing(name) || override(name) {
		p.bad(n, "leave it out: kimbap writes it where it is needed", "%s may not be %s, which frames the message or belongs to the connection", what, name)
	}
}

func (p *parser) checkHeaderText(n *yaml.Node, what, text string) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		p.bad(n, "write it on one line, without tabs", "%s may not hold control characters", what)
	}
}
