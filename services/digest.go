package services

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"regexp"
	"slices"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// definition is all of an action that an approval is for, as bytes: what it does,
// where it goes and with which credential. Every text stands behind its length,
// so that no two definitions are the same bytes. Positions in the file and the
// digest itself are left out; a test holds it to every other field.
type definition struct {
	bytes []byte
	of    *runtime.Auth // whose bytes auth is: that of a service, for all its actions
	auth  []byte
}

// digest is the SHA-256 of an action's definition.
func (d *definition) digest(action *runtime.Action, routes []classifier.Route) string {
	d.bytes = d.bytes[:0]
	d.action(action)
	d.number(len(routes))
	for i := range routes {
		d.route(&routes[i])
	}
	sum := sha256.Sum256(d.bytes)
	return hex.EncodeToString(sum[:])
}

func (d *definition) number(n int) { d.bytes = binary.AppendVarint(d.bytes, int64(n)) }

func (d *definition) text(list ...string) {
	for _, s := range list {
		d.number(len(s))
		d.bytes = append(d.bytes, s...)
	}
}

func (d *definition) texts(list []string) {
	d.number(len(list))
	d.text(list...)
}

func (d *definition) flags(list ...bool) {
	for _, b := range list {
		if b {
			d.bytes = append(d.bytes, 1)
		} else {
			d.bytes = append(d.bytes, 0)
		}
	}
}

func (d *definition) pairs(m map[string]string) {
	d.number(len(m))
	for _, name := range sortedKeys(m) {
		d.text(name, m[name])
	}
}

// value is what JSON can hold.
func (d *definition) value(v any) {
	if s, ok := v.(string); ok {
		d.text("text", s)
		return
	}
	text, err := json.Marshal(v)
	if err != nil { // cannot be: all of it came from text
		panic("services: digest: " + err.Error())
	}
	d.text("json", string(text))
}

func (d *definition) pattern(p *regexp.Regexp) {
	if d.flags(p != nil); p != nil {
		d.text(p.String())
	}
}

func (d *definition) bound(f *float64) {
	if d.flags(f != nil); f != nil {
		d.bytes = binary.BigEndian.AppendUint64(d.bytes, math.Float64bits(*f))
	}
}

func (d *definition) length(n *int) {
	if d.flags(n != nil); n != nil {
		d.number(*n)
	}
}

func (d *definition) action(a *runtime.Action) {
	d.text(string(a.Ref), a.Service, a.Name, a.Description, string(a.Risk), a.Rest, a.Backend)
	d.flags(a.GrantsAccess, a.Idempotent, a.WebSocket, a.AuditPlain)
	d.number(len(a.Params))
	for i := range a.Params {
		d.param(&a.Params[i])
	}
	if d.flags(a.Auth != nil); a.Auth != nil {
		d.credential(a.Auth)
	}
	if d.flags(a.HTTP != nil); a.HTTP != nil {
		d.http(a.HTTP)
	}
	if d.flags(a.Command != nil); a.Command != nil {
		d.value(a.Command)
	}
}

func (d *definition) param(p *runtime.Param) {
	d.text(p.Name, p.Description, string(p.Type), string(p.In), p.Split)
	d.flags(p.Required, p.Secret, p.Body)
	d.flags(p.Default != nil)
	if p.Default != nil {
		d.value(p.Default)
	}
	d.number(len(p.Enum))
	for _, v := range p.Enum {
		d.value(v)
	}
	d.pattern(p.Pattern)
	d.bound(p.Minimum)
	d.bound(p.Maximum)
	d.length(p.MinLength)
	d.length(p.MaxLength)
	if p.Nullable { // what it is not stays as it was
		d.text("null")
	}
}

func (d *definition) credential(a *runtime.Auth) {
	if d.of == a {
		d.bytes = append(d.bytes, d.auth...)
		return
	}
	from := len(d.bytes)
	d.text(string(a.Type), a.Ref, string(a.Caller), string(a.KeepIf), a.Header, a.Prefix, a.Query, a.Field, a.Segment, a.Username, a.UsernameRef)
	d.pairs(a.Placeholders)
	if a.Form != "" { // what it is not stays as it was
		d.text("form", a.Form)
	}
	if a.UsernameOpen {
		d.text("username_open")
	}
	if o := a.OAuth; o != nil { // what it is not stays as it was
		d.text("oauth", o.AuthorizeURL, o.TokenURL, o.DeviceURL, o.RevokeURL, o.Issuer, o.ClientAuth)
		if o.Grant != "" {
			d.text("grant", o.Grant)
		}
		d.texts(o.Scopes)
		d.number(len(o.Params))
		for _, p := range o.Params {
			d.text(p.Name, p.Text)
		}
	}
	d.of, d.auth = a, append([]byte(nil), d.bytes[from:]...)
}

func (d *definition) http(s *runtime.HTTPSpec) {
	d.text(s.BaseURL, s.Method, s.Path, s.BodyType, s.Filter)
	d.texts(s.Authorities)
	if len(s.Methods) > 0 { // what it is not stays as it was
		d.text("methods")
		d.texts(s.Methods)
	}
	d.flags(s.AllowHTTP, s.Push)
	d.number(s.Segment)
	d.pairs(s.PathParams)
	d.fields(s.Query)
	d.fields(s.Headers)
	if d.flags(s.Body != nil); s.Body != nil {
		d.value(s.Body.Value)
	}
	d.number(len(s.Errors))
	for _, status := range sortedKeys(s.Errors) {
		d.number(status)
		d.text(s.Errors[status].Code, s.Errors[status].Message)
	}
	if d.flags(s.Pages != nil); s.Pages != nil {
		d.text(s.Pages.Type, s.Pages.Next, s.Pages.Param)
	}
	if d.flags(s.Retry != nil); s.Retry != nil {
		d.number(s.Retry.Attempts)
		d.number(len(s.Retry.On))
		for _, status := range s.Retry.On {
			d.number(status)
		}
	}
}

func (d *definition) fields(list []runtime.Field) {
	d.number(len(list))
	for _, f := range list {
		d.text(f.Name)
		d.value(f.Value.Value)
	}
}

func (d *definition) route(r *classifier.Route) {
	d.text(r.Action, r.Service, r.Path)
	d.texts(r.Schemes)
	d.texts(r.Authorities)
	d.texts(r.Methods)
	d.flags(r.AllowSlash, r.Strict, r.Push)
	d.pairs(r.Match.Query)
	d.pairs(r.Match.Header)
	d.pairs(r.Match.Body)
	d.flags(r.Match.GraphQL != nil, r.Match.JSONRPC != nil)
	if g := r.Match.GraphQL; g != nil {
		if d.text(g.Type, g.Operation); len(g.Fields) > 0 {
			d.texts(g.Fields)
		}
	}
	if j := r.Match.JSONRPC; j != nil {
		d.text(j.Method)
		d.pairs(j.Params)
	}
	d.number(len(r.Args))
	for i := range r.Args {
		a := &r.Args[i]
		d.text(a.Name, string(a.In), a.Key, a.Type)
		d.pattern(a.Pattern)
		if a.Group > 0 { // an argument that is alone in its text is written as before
			d.text("group")
			d.number(a.Group)
		}
		if a.Null {
			d.text("null")
		}
	}
}

func sortedKeys[K string | int, V any](m map[K]V) []K {
	if len(m) == 0 {
		return nil
	}
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
