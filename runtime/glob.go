package runtime

// Ref names an action: "service.action", for example "github.list-pull-requests".
type Ref string

// The actions that are not in any service file: traffic to hosts that no
// service owns. They pass the same pipeline and leave the same records.
const (
	ActionPass   Ref = "net.pass"   // HTTP or TLS to a host with no service
	ActionTunnel Ref = "net.tunnel" // a raw tunnel of any other protocol
)

// Glob is a pattern in which "*" stands for any run of characters, the empty
// one and dots included. Every other character stands for itself.
type Glob string

// Match reports whether s has the form of the pattern. It takes time linear in
// len(s)·stars and allocates nothing.
func (g Glob) Match(s string) bool {
	pattern := string(g)
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// Scope is a [Glob] over action references that a token may use.
type Scope = Glob
