package runtime

import (
	"regexp"
	"slices"
	"strings"
)

// Risk is how much harm an action can do; policy has a default for each level.
type Risk string

// The levels. RiskUnmatched is that of [ActionPass]: a host with no service.
const (
	RiskLow       Risk = "low"
	RiskMedium    Risk = "medium"
	RiskHigh      Risk = "high"
	RiskCritical  Risk = "critical"
	RiskUnmatched Risk = "unmatched"
)

// Args are the arguments of an action by name: string, bool, json.Number,
// []any, map[string]any or nil. Numbers keep the digits they were written with.
type Args map[string]any

// Action is one operation of a service, compiled and immutable. It is shared
// by all requests that use it.
type Action struct {
	Ref          Ref
	Service      string
	Name         string
	Description  string
	Risk         Risk
	GrantsAccess bool // its effect or answer hands out lasting power
	Idempotent   bool
	WebSocket    bool   // an upgrade to websocket may pass
	AuditPlain   bool   // body arguments are recorded as they are, not as keyed hashes
	Digest       string // hex SHA-256 of the definition, so that an approval is for this one
	Params       []Param
	Rest         string       // name of the object argument that collects undeclared ones; empty: none
	Backend      string       // key into [Options].Backends
	Auth         *Auth        // never nil; shared by the actions of a service
	HTTP         *HTTPSpec    // nil for a command
	Command      *CommandSpec // nil for an HTTP action
	Source       string       // file:line of the definition, "" for built-in ones
}

// ParamType is the type of an argument, in JSON Schema's words.
type ParamType string

// The argument types.
const (
	TypeString  ParamType = "string"
	TypeInteger ParamType = "integer"
	TypeNumber  ParamType = "number"
	TypeBoolean ParamType = "boolean"
	TypeArray   ParamType = "array"
	TypeObject  ParamType = "object"
)

// Callable reports whether a request can be built from the action's name and
// arguments. A catch-all covers many requests, and is only recognised.
func (a *Action) Callable() bool { return a.HTTP == nil || !strings.HasSuffix(a.HTTP.Path, "/**") }

// Place says where an argument stands in the HTTP request.
type Place string

// The places. An argument of a command, or one no mapping names, has none.
const (
	InPath   Place = "path"
	InQuery  Place = "query"
	InHeader Place = "header"
	InBody   Place = "body"
)

// Param is the schema of one argument.
type Param struct {
	Name        string
	Description string
	Type        ParamType
	In          Place
	Required    bool
	Nullable    bool // null is a value of it, in a JSON body; of any other argument it counts as not given
	Secret      bool // never recorded
	Default     any  // nil: none; applied to built requests only
	Enum        []any
	Pattern     *regexp.Regexp
	Minimum     *float64
	Maximum     *float64
	MinLength   *int
	MaxLength   *int
	Split       string // "{owner}/{repo}": this argument fills the named ones
	Body        bool   // the body may hold it, whatever In says is its first place
}

// HTTPSpec is how the rest backend builds a request of an action, and where it
// may go. Templates name arguments in braces.
type HTTPSpec struct {
	BaseURL     string   // scheme://host[:port][/prefix]
	Authorities []string // all canonical authorities of the service, base_url's first
	AllowHTTP   bool     // the credential may go over cleartext to non-loopback
	Method      string   // the first of the methods, used for built requests
	Methods     []string // all of them, where there are several
	Path        string   // template below BaseURL
	PathParams  map[string]string
	Query       []Field
	Headers     []Field
	Body        *Template // nil: no body
	BodyType    string    // json | form | multipart | raw
	Filter      string    // jq, for call and exec only
	Errors      map[int]ErrorMapping
	Segment     int         // AuthPath: which segment of the target's path holds the credential, from 1; 0: none
	Push        bool        // a git push: the argument refs is read from the head of its body
	Pages       *Pagination // nil: the answer is all there is; for call and exec only
	Retry       *Retry      // nil: sent once; idempotent actions only
}

// Pagination is how the next part of a long answer is asked for.
type Pagination struct {
	Type  string // link (RFC 8288, rel="next") | cursor | page
	Next  string // cursor: jq on the answer, gives the next value of Param
	Param string // cursor, page: the argument that asks for a part
}

// Retry says when a built request is sent again: Attempts in all, after one of
// the statuses in On.
type Retry struct {
	Attempts int
	On       []int
}

// Field is one named template, in the file's order.
type Field struct {
	Name  string
	Value Template
}

// Template is a value of the request mapping: text with {argument} holes, or a
// tree of such texts (map[string]any, []any) for bodies.
type Template struct{ Value any }

// ErrorMapping says what an upstream status means, for call and exec.
type ErrorMapping struct {
	Code    string
	Message string
}

// AuthType is how a service wants its credential.
type AuthType string

// The auth types. The zero value is AuthNone.
const (
	AuthNone   AuthType = "none"
	AuthHeader AuthType = "header"
	AuthBearer AuthType = "bearer"
	AuthBasic  AuthType = "basic"
	AuthQuery  AuthType = "query"
	AuthBody   AuthType = "body"
	AuthPath   AuthType = "path"
	AuthOAuth2 AuthType = "oauth2"
)

// PathCredential stands in the place of the credential of an [AuthPath] in a
// request that was built, until it is sent.
const PathCredential = "CREDENTIAL"

// CallerAuth is what happens to the caller's own value in the credential's place.
type CallerAuth string

// The treatments of a caller's own credential.
const (
	CallerReplace     CallerAuth = "replace"     // overwritten by the stored one
	CallerPlaceholder CallerAuth = "placeholder" // must be the service's placeholder, else refused
	CallerKeep        CallerAuth = "keep"        // kept when present; else the stored one goes, and no other beside it
)

// Auth is where the credential of a service goes and which one it is.
type Auth struct {
	Type         AuthType
	Ref          string // name in the vault; "" with AuthNone
	Caller       CallerAuth
	KeepIf       Glob   // a caller's value of this form is kept even when one is stored
	Header       string // AuthHeader: field name
	Prefix       string // AuthHeader, AuthPath: text before the value
	Query        string // AuthQuery: parameter name
	Field        string // AuthBody: member or form field name
	Form         string // AuthBearer, AuthHeader: a field of forms from which a key is taken too; "" for none
	Segment      string // AuthPath: name of the placeholder that stands for it in paths
	OAuth        *OAuth // AuthOAuth2: where its grant comes from
	Username     string // AuthBasic: literal user
	UsernameRef  string // AuthBasic: vault name of the user
	UsernameOpen bool   // AuthBasic: the user is no secret, as an address or the id of an account is none
	Placeholders map[string]string
}

// HeaderField is the header field that the credential goes into, "" for none.
func (a *Auth) HeaderField() string {
	switch a.Type {
	case AuthBearer, AuthBasic, AuthOAuth2:
		return "Authorization"
	case AuthHeader:
		return a.Header
	}
	return ""
}

// Refs are the names in the vault that a key is made of: its own, and the one of the user
// that goes with it.
func (a *Auth) Refs() []string {
	return slices.DeleteFunc([]string{a.Ref, a.UsernameRef}, func(ref string) bool { return ref == "" })
}

// OAuth is where a service's access tokens come from (RFC 6749).
type OAuth struct {
	Grant        string // [GrantClientCredentials]; "": a person signs in
	AuthorizeURL string // "": no sign-in in a browser
	TokenURL     string
	DeviceURL    string // RFC 8628; "": none on another device
	RevokeURL    string // RFC 7009; "": a grant is given back by hand
	Issuer       string // RFC 9207, of whoever answers a sign-in in a browser; "": it is not asked
	Scopes       []string
	ClientAuth   string // how a client's secret is shown: basic | post
	Params       []Pair // added to the address of the sign-in, or to the question of the client itself
}

// GrantClientCredentials is of tokens that a client is given for its own secret, with no person (RFC
// 6749 section 4.4).
const GrantClientCredentials = "client_credentials"

// OfClient reports whether no person signs in.
func (o *OAuth) OfClient() bool { return o.Grant == GrantClientCredentials }

// Pair is a name and its value.
type Pair struct{ Name, Text string }

// Needs reports whether a call cannot do without the argument: what another one is
// split into can be left out. repo: owner/repo leaves out the owner, not itself.
func (a *Action) Needs(p *Param) bool {
	if !p.Required || p.Default != nil {
		return false
	}
	return !slices.ContainsFunc(a.Params, func(o Param) bool {
		return o.Name != p.Name && strings.Contains(o.Split, "{"+p.Name+"}")
	})
}

// TakesFile reports whether an argument may be a file too: {filename, content or base64}. In a
// body in parts that is each of text, or an object, of which the service bounds nothing.
func (a *Action) TakesFile(p *Param) bool {
	return p.In == InBody && a.HTTP != nil && a.HTTP.BodyType == "multipart" &&
		(p.Type == TypeString || p.Type == TypeObject) && p.Enum == nil && p.Pattern == nil
}

// FileType is what a text that may be a file is in TypeScript.
const FileType = "string | {filename: string; content?: string; base64?: string; content_type?: string}"
