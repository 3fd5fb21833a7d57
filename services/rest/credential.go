package rest

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/kimbap-run/kimbap/runtime"
)

// credentialFields, in canonical spelling, carry a caller's own credential by custom. None of them goes
// beside a stored one: the upstream could choose, and the caller would act as
// someone else than the one who was judged.
var credentialFields = [...]string{"Authorization", "X-Api-Key"}

// authenticate puts the stored credential into its place, or lets the caller's
// own pass where that is allowed.
func (b *Backend) authenticate(call *runtime.Call, m *message, result *runtime.Result) error {
	auth, raw := call.Action.Auth, call.Request.Raw != nil && !call.Request.Followed
	if auth == nil {
		auth = &runtime.Auth{}
	}
	m.private = append(m.privately[:0], "Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", auth.HeaderField())
	var s seen
	if raw {
		var err error
		if s, err = b.inspect(call, auth, m); err != nil {
			return err
		}
	}
	stored := call.Credential.Found()
	switch {
	case auth.Type == runtime.AuthNone || auth.Type == "", auth.Type == runtime.AuthPath && segmentOf(call.Action) == 0:
		return nil
	case raw && auth.KeepIf != "" && s.matches(auth.KeepIf), raw && auth.Caller == runtime.CallerKeep && s.other:
		m.used = runtime.CredentialCaller
		return b.keepOnlyOwn(call, auth, m, s)
	case raw && auth.Caller == runtime.CallerPlaceholder && (!s.placeholder || s.other):
		return &runtime.Error{
			Code: runtime.CodeForbidden,
			Msg:  fmt.Sprintf("%s takes only its placeholder as credential from a caller", call.Action.Service),
			Hint: "start the program with `kimbap run`, which sets the placeholder, and send no key of your own",
		}
	case call.Withheld && (s.placeholder || s.other):
		return runtime.OfPage(call.Request.Page())
	case call.Withheld:
		m.dropOthers("")
		m.used = runtime.CredentialWithheld
		return nil
	case !stored && raw && !s.placeholder:
		if s.other {
			m.used = runtime.CredentialCaller
		}
		return b.refuseInPlace(auth, s)
	case !stored:
		return runtime.NoCredential(call)
	}
	if err := permitted(call, m); err != nil {
		return err
	}
	if raw {
		m.dropOthers(auth.HeaderField())
		if err := b.dropFromForm(call, auth, m); err != nil {
			return err
		}
	}
	return b.place(call, auth, m, result)
}

// keepOnlyOwn takes the service's own placeholder out of its place where the caller's own
// credential is kept, in another one, and so nothing replaces it.
func (b *Backend) keepOnlyOwn(call *runtime.Call, auth *runtime.Auth, m *message, s seen) error {
	name := auth.HeaderField()
	switch {
	case !s.placeholder:
		return b.refuseInPlace(auth, s)
	case name == "" || s.other: // it cannot be taken out by itself
		return foreignPlaceholder(call.Action.Service)
	}
	for _, spelling := range m.remove(name) {
		m.declare(runtime.ChangeCallerKey, spelling)
	}
	return nil
}

// dropOthers removes the customary credential fields but the declared one.
func (m *message) dropOthers(declared string) {
	for _, name := range credentialFields {
		if !strings.EqualFold(name, declared) {
			for _, spelling := range m.remove(name) {
				m.declare(runtime.ChangeCallerKey, spelling)
			}
		}
	}
}

// foldedFieldOf is the field that the credential goes into, folded.
func foldedFieldOf(auth *runtime.Auth) string {
	name := auth.HeaderField()
	if name == "Authorization" { // that of most services, without a copy for each request
		return "authorization"
	}
	return fold(name)
}

// permitted checks where the stored credential may go (guarantee G1).
func permitted(call *runtime.Call, m *message) error {
	service, host := call.Action.Service, hostOf(m.authority)
	if !names(call.Action.HTTP, m.authority) || !call.Credential.Allows(m.authority) {
		return &runtime.Error{
			Code: runtime.CodeNoCredential,
			Msg:  fmt.Sprintf("the credential of %s was not stored for %s", service, host),
			Hint: call.Command("link " + service + " --rebind"),
		}
	}
	if m.scheme == "https" || isLoopback(m.authority) || call.Action.HTTP.AllowHTTP {
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonInsecureScheme,
		Msg:  fmt.Sprintf("the credential of %s is not sent over cleartext to %s", service, host),
		Hint: "use https, or set allow_http: true in the service file if the network is yours",
	}
}

// names reports whether the service names the authority.
func names(spec *runtime.HTTPSpec, authority string) bool {
	return spec != nil && slices.Contains(spec.Authorities, authority)
}

// place writes the credential and arms the scrubber for it.
func (b *Backend) place(call *runtime.Call, auth *runtime.Auth, m *message, result *runtime.Result) error {
	if err := refuseRivals(call, auth, m); err != nil {
		return err
	}
	secret, basic := call.Credential.Value.Reveal(), ""
	if auth.Type == runtime.AuthBasic {
		user := auth.Username
		if user == "" {
			user = call.Credential.Username.Reveal()
		}
		basic = base64.StdEncoding.EncodeToString([]byte(user + ":" + secret))
	}
	if err := unfit(call, auth, secret); err != nil {
		return err
	}
	if err := m.write(call.Action, secret, basic, call.Request.Raw == nil); err != nil {
		return err
	}
	m.declare(placed(call.Action, auth))
	user := call.Credential.Username.Reveal()
	if auth.UsernameOpen { // answers are full of it: an address, or the id that stands in every address
		user = ""
	}
	m.scrub = b.matchers.Of(secret, basic, user, revealed(call.Credential.Beside)...)
	result.Unscanned = m.scrub == nil
	m.used = runtime.CredentialStored
	return nil
}

// write puts the secret where the service of the action takes it; basic is what stands for it and
// the user's name (RFC 7617). Built says that the message was made here, and not by a caller.
func (m *message) write(action *runtime.Action, secret, basic string, built bool) error {
	auth := action.Auth
	switch auth.Type {
	case runtime.AuthBearer, runtime.AuthOAuth2:
		m.setField("Authorization", "Bearer "+secret)
	case runtime.AuthBasic:
		m.setField("Authorization", "Basic "+basic)
	case runtime.AuthHeader:
		m.setField(auth.Header, auth.Prefix+secret)
	case runtime.AuthQuery:
		m.target = setQuery(m.target, auth.Query, secret)
	case runtime.AuthPath:
		m.target = setSegment(m.target, segmentOf(action), auth.Prefix+secret)
	case runtime.AuthBody:
		return m.writeBody(action, secret, built)
	default:
		return &runtime.Error{Code: runtime.CodeInternal, Msg: fmt.Sprintf("unknown auth type %q", auth.Type)}
	}
	return nil
}

// unfit is the error of a stored value that no header field can hold, as of a key file of several
// lines. It is the owner's to mend, and not the caller's.
func unfit(call *runtime.Call, auth *runtime.Auth, secret string) error {
	if auth.HeaderField() == "" || auth.Type == runtime.AuthBasic || httpguts.ValidHeaderFieldValue(secret) {
		return nil
	}
	why := "a control character"
	if strings.ContainsAny(secret, "\r\n") {
		why = "more than one line"
	}
	return &runtime.Error{
		Code: runtime.CodeNoCredential, Stage: runtime.StageCredential,
		Msg:  fmt.Sprintf("the stored credential %q has %s, and goes into a header field", call.Credential.Name, why),
		Hint: "the owner of this kimbap stores it anew: " + call.Command("link "+call.Action.Service),
	}
}

func revealed(secrets []runtime.Secret) (out []string) {
	for _, s := range secrets {
		out = append(out, s.Reveal())
	}
	return out
}

// placed is the change by which the stored credential goes out: its kind, and
// the name of its place.
func placed(action *runtime.Action, auth *runtime.Auth) (kind runtime.ChangeKind, name string) {
	switch auth.Type {
	case runtime.AuthPath:
		return runtime.ChangeCredentialPath, strconv.Itoa(segmentOf(action))
	case runtime.AuthQuery:
		return runtime.ChangeCredentialQuery, auth.Query
	case runtime.AuthBody:
		return runtime.ChangeCredentialBody, auth.Field
	}
	return runtime.ChangeCredential, auth.HeaderField()
}

// setField replaces a field under all its spellings by one value.
func (m *message) setField(name, value string) {
	for _, spelling := range m.remove(name) {
		if !strings.EqualFold(spelling, name) {
			m.declare(runtime.ChangeCallerKey, spelling)
		}
	}
	m.header[http.CanonicalHeaderKey(name)] = []string{value}
}

// setQuery replaces a query parameter under all its spellings by one value, in
// the place of the first; everything else stays byte for byte.
func setQuery(target, name, value string) string {
	path, query, _ := strings.Cut(target, "?")
	return path + "?" + setPair(query, name, value)
}

// setPair replaces a pair of a query or form.
func setPair(pairs, name, value string) string {
	mine, placed := url.QueryEscape(name)+"="+url.QueryEscape(value), false
	var out []string
	for pair := range strings.SplitSeq(pairs, "&") {
		key, _, _ := strings.Cut(pair, "=")
		switch {
		case !strings.EqualFold(queryUnescape(key), name):
			if pair != "" || pairs != "" {
				out = append(out, pair)
			}
		case !placed:
			out, placed = append(out, mine), true
		}
	}
	if !placed {
		out = append(out, mine)
	}
	return strings.Join(out, "&")
}

// seen is what the caller sent in the credential's place.
type seen struct {
	placeholder bool     // the service's own
	other       bool     // anything else
	place       []string // as it is there
	values      []string // in all readings, those of the customary fields too
}

func (s *seen) matches(g runtime.Glob) bool {
	return slices.ContainsFunc(s.values, g.Match)
}

// inspect reads the caller's credential and refuses placeholders that stand
// anywhere else than in the place of their own service.
func (b *Backend) inspect(call *runtime.Call, auth *runtime.Auth, m *message) (seen, error) {
	var s seen
	place, err := callerValues(call, auth, m)
	if err != nil {
		return s, err
	}
	var room [4]string
	ours := appendPlaceholders(room[:0], auth)
	s.place = place
	for _, value := range place {
		from := len(s.values)
		s.values = runtime.AppendReadings(s.values, value, auth.Prefix)
		reads := s.values[from:]
		own := slices.ContainsFunc(reads, func(r string) bool { return b.own(call, auth, ours, r) })
		if !own {
			if service, known := b.known(ours, reads); known {
				return s, foreignPlaceholder(service)
			}
			s.other = true
		}
		s.placeholder = s.placeholder || own
	}
	for _, name := range credentialFields {
		if auth.Prefix == "" && keyOf(auth.HeaderField()) == name {
			continue // read above, in the same way
		}
		for _, value := range m.values(name) {
			s.values = runtime.AppendReadings(s.values, value, "")
		}
	}
	return s, b.elsewhere(call, auth, ours, m)
}

// callerValues returns what stands in the declared place.
func callerValues(call *runtime.Call, auth *runtime.Auth, m *message) ([]string, error) {
	switch auth.Type {
	case runtime.AuthQuery:
		return queryValues(m.target, auth.Query), nil
	case runtime.AuthBody:
		return bodyValues(call, m, auth)
	case runtime.AuthPath:
		return pathValues(m.target, segmentOf(call.Action), auth.Prefix)
	}
	if name := auth.HeaderField(); name != "" {
		return m.values(name), nil
	}
	return nil, nil
}

func queryValues(target, name string) []string {
	_, query, _ := strings.Cut(target, "?")
	var out []string
	for pair := range strings.SplitSeq(query, "&") {
		if key, value, _ := strings.Cut(pair, "="); strings.EqualFold(queryUnescape(key), name) {
			out = append(out, queryUnescape(value))
		}
	}
	return out
}
