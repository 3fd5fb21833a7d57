package rest

import (
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// masked stands for the credential in what a person is shown.
const masked = "[secret]"

// Preview is a request as `call --dry-run` shows it.
type Preview struct {
	Method string         `json:"method"`
	URL    string         `json:"url"`
	Header []PreviewField `json:"header"`
	Body   string         `json:"body,omitempty"`
}

// PreviewField is one field line.
type PreviewField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Preview is what a call would send of a request that was built for the action, with the
// credential masked. It sends nothing and needs no credential.
func (b *Backend) Preview(action *runtime.Action, r *runtime.Built) (*Preview, error) {
	m := messageOf(r, &runtime.Result{})
	if err := mask(action, m); err != nil {
		return nil, err
	}
	p := &Preview{Method: m.method, URL: m.scheme + "://" + bareHost(m.scheme, m.authority) + m.target, Body: string(m.whole)}
	for name, list := range m.header {
		for _, value := range list {
			p.Header = append(p.Header, PreviewField{name, value})
		}
	}
	slices.SortFunc(p.Header, func(a, b PreviewField) int { return strings.Compare(a.Name, b.Name) })
	return p, nil
}

// mask puts "[secret]" where the credential would stand.
func mask(action *runtime.Action, m *message) error {
	auth := action.Auth
	if auth == nil {
		return nil
	}
	switch auth.Type {
	case runtime.AuthBearer, runtime.AuthOAuth2:
		m.setField("Authorization", "Bearer "+masked)
	case runtime.AuthBasic:
		m.setField("Authorization", "Basic "+masked)
	case runtime.AuthHeader:
		m.setField(auth.Header, auth.Prefix+masked)
	case runtime.AuthQuery:
		m.target = strings.Replace(setQuery(m.target, auth.Query, marker), marker, masked, 1)
	case runtime.AuthPath:
		m.target = strings.Replace(setSegment(m.target, segmentOf(action), auth.Prefix+marker), marker, masked, 1)
	case runtime.AuthBody:
		return setBodyField(&runtime.Call{Action: action}, m, auth.Field, masked)
	}
	return nil
}

// marker survives query escaping, masked would not.
const marker = "kimbap-secret-goes-here"

// String writes the request as its lines on the wire would be.
func (p *Preview) String() string {
	var b strings.Builder
	b.WriteString(p.Method + " " + p.URL + "\n")
	for _, f := range p.Header {
		b.WriteString(f.Name + ": " + f.Value + "\n")
	}
	if p.Body != "" {
		b.WriteString("\n" + p.Body + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
