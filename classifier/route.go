// Package classifier says which action an HTTP request is.
//
// It is a table of routes, compiled once and never changed: authority, method, then a
// trie of path segments, then what distinguishes routes of one path (query, header, body,
// GraphQL operation, JSON-RPC method). The most specific route wins; two routes that could
// both win do not compile.
//
// It refuses what could be read in two ways and never repairs it. The raw target is split
// on "/" before anything is decoded. A request that an upstream might take for a more
// specific action than the one found is an [Error], not a guess.
//
// It does no IO, keeps no state and decides nothing about permission: "no action" is an
// answer, and the caller denies on it. The packages below it read JSON, a GraphQL document
// and a git push; they know no routes.
//
// Start reading at [Table.Match]. [Prepare], [Join] and [Unite] make a table.
package classifier

import (
	"net/http"
	"regexp"
)

// Route is one way to reach an action, as compiled from a service file.
type Route struct {
	Action      string   // "github.list-pull-requests"
	Service     string   // "github"
	Schemes     []string // "https"; "http" too only for loopback or allow_http
	Authorities []string // canonical host:port
	Methods     []string // exact, case-sensitive; RFC 9110 section 9.1
	Path        string   // pattern: literals, {name}, {name:int}, {name...}, **
	AllowSlash  bool     // %2F and %5C may stand inside parameters and **
	Strict      bool     // the body is always read and checked
	Match       Discriminators
	Rank        int    // how bad the action is: of GraphQL routes that look for root fields, and of a batch, the highest wins
	Push        bool   // a git push: gitpush.Read tells its references
	Args        []Arg  // how arguments are read back
	Source      string // file:line, quoted in overlap errors
}

// Discriminators tell routes of one method and path apart.
type Discriminators struct {
	Query   map[string]string // parameter → exact value, or one of several as "a|b"; "*" means present
	Header  map[string]string // field → the same
	Body    map[string]string // JSON pointer (RFC 6901), or several as "/a|/b" → exact scalar as text, in one of the places; "*" means present and not null; a name with "|" in it cannot be told; "/a/*" is each element of a list
	GraphQL *GraphQL
	JSONRPC *JSONRPC
}

// GraphQL selects by the executed operation. What is empty does not select.
type GraphQL struct {
	Type      string   // query, mutation or subscription
	Operation string   // its name, which is the caller's own choice
	Fields    []string // patterns of root fields, of which one is enough: "delete*", "*Delete"; "!deleteDraft" takes out; "**.secrets" at any depth
}

// JSONRPC selects by method and, for MCP tools/call, by scalar params.
type JSONRPC struct {
	Method string
	Params map[string]string // JSON pointer below /params → as in a body
}

// Place says where an argument stands in the request.
type Place string

// The places.
const (
	InPath   Place = "path"
	InQuery  Place = "query"
	InHeader Place = "header"
	InBody   Place = "body"
)

// Arg is the inverse of one entry of a service's request mapping: where to
// read an argument from and as what type.
type Arg struct {
	Name    string
	In      Place
	Key     string         // path placeholder, query key, header field or JSON pointer / form field ("" with InBody: the whole body)
	Null    bool           // null in a JSON body is a value of it, not its absence
	Type    string         // string | integer | number | boolean | array | object
	Pattern *regexp.Regexp // inverse of a mixed template such as "refs/heads/{branch}", for all its arguments; nil: the whole value
	Group   int            // which group of Pattern is the value; 0 is the first
}

// Input is one request to classify. Target is the raw request-target in origin
// form, exactly as received.
type Input struct {
	Scheme    string
	Authority string
	Method    string
	Target    string
	Header    http.Header
	Body      *Body    // nil: not read
	Checked   bool     // what the body holds are arguments that were checked: a strict route does not ask for it
	Unfilled  []string // fields of the head, in canonical form, that no argument fills though the service has a text with one there
}

// Match is what a request was recognised as.
type Match struct {
	Action   string // "" : the host is ours, but no action covers the request
	Service  string
	Args     map[string]any // string, bool, json.Number, []any, map[string]any
	Query    map[string]any // parameters no mapping names: string, or []any when repeated
	Astray   []string       // arguments that stand where the service does not have them: nobody can say what the server makes of them
	NeedBody bool           // read the body, parse it with ParseBody and match again
	Upgrade  bool           // the request asks for a protocol upgrade
	Push     bool           // of the route
	Others   []Other        // what else some server could take the request for: judge that too
	Words    []string       // parameters of the query that decided, or would have: no form says them ([WatchOverride]). Not to be changed
}

// HostStatus says whose an authority is.
type HostStatus uint8

// The statuses.
const (
	HostForeign  HostStatus = iota // no service owns it
	HostOwned                      // a service owns it under this scheme
	HostInsecure                   // a service owns the host, but not over this scheme: refuse
)
