package rest

import (
	"net/url"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// masked stands for the credential in what a person is shown.
const masked = runtime.Redacted

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

// mask puts [runtime.Redacted] where the credential would stand.
func mask(action *runtime.Action, m *message) error {
	auth := action.Auth
	if auth == nil || auth.Type == runtime.AuthNone || auth.Type == "" {
		return nil
	}
	if err := m.write(action, masked, masked, true); err != nil {
		return err
	}
	if auth.Type == runtime.AuthQuery || auth.Type == runtime.AuthPath {
		m.target = strings.Replace(m.target, url.QueryEscape(masked), masked, 1) // as a person reads it
	}
	return nil
}

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
