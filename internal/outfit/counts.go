package outfit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// Counts are what became of the requests of a run so far.
type Counts struct {
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`
	Pending  int64 `json:"pending"`

	// Unauthorized are the services that answered 401, and to whose key.
	Unauthorized map[string]runtime.CredentialUse `json:"unauthorized,omitempty"`
	// Untrusting is for how many hosts no program took the certificate, though one was shown it.
	Untrusting int64 `json:"untrusting,omitempty"`
	// Unconnected is how often a program asked the proxy for https without CONNECT.
	Unconnected int64 `json:"unconnected,omitempty"`
	// Undecided are the approvals that end with the run, since nobody decided them.
	Undecided []string `json:"undecided,omitempty"`
}

// String is the line at the end of a run.
func (c Counts) String() string {
	what := "requests"
	if c.Requests == 1 {
		what = "request"
	}
	return fmt.Sprintf("%d %s, %d denied, %d pending", c.Requests, what, c.Denied, c.Pending)
}

// remarks are what a person should know at the end of a run beside the counts. where is
// said before a command that is for another machine.
func (c Counts) remarks(isolated bool, where string) (out []string) {
	for _, service := range slices.Sorted(maps.Keys(c.Unauthorized)) {
		why := "no key is stored for it"
		switch c.Unauthorized[service] {
		case runtime.CredentialWithheld:
			out = append(out, service+" answered 401: a web page of another origin asked, and such a page gets no key (docs/clients.md, Browsers)")
			continue
		case runtime.CredentialStored:
			why = "it does not accept the stored key"
		case runtime.CredentialCaller:
			why = "it does not accept the program's own key, and none is stored"
		}
		out = append(out, fmt.Sprintf("%s answered 401: %s (%skimbap link %s)", service, why, where, service))
	}
	if c.Untrusting > 0 {
		hosts := "a host"
		if c.Untrusting > 1 {
			hosts = fmt.Sprintf("%d hosts", c.Untrusting)
		}
		out = append(out, fmt.Sprintf("a program did not accept kimbap's certificate for %s (%skimbap status): it has roots of its own, or wants the file of SSL_CERT_FILE in an option (docs/clients.md, Command-line tools)", hosts, where))
	}
	if c.Unconnected > 0 {
		out = append(out, "a program asked the proxy for https without CONNECT, which no proxy takes: kimbap run --isolate -- env -u HTTPS_PROXY -u https_proxy -u ALL_PROXY -u all_proxy CMD (Linux; docs/clients.md, Clients without CONNECT)")
	}
	if c.Requests == 0 && !isolated {
		out = append(out, "if it used the network it went around kimbap, without a key, as programs do that read no proxy variables: kimbap run --isolate (Linux), kimbap doctor --client all")
	}
	return out
}

// Say says at the end of a run what there was. where is said before a command that is
// for another machine.
func (c Counts) Say(o Run, where string) {
	o.Say(c.String())
	for _, remark := range c.remarks(o.Isolate, where) {
		o.Say(remark)
	}
	if len(c.Undecided) == 0 {
		return
	}
	what := c.Undecided[0] + " was not decided, and ends"
	if n := len(c.Undecided); n > 1 {
		what = fmt.Sprintf("%d questions were not decided (%skimbap approve list), and end", n, where)
	}
	o.Say(fmt.Sprintf("%s with this run: to allow it from the next one on, %skimbap approve accept %s --always; to be waited for, keep %skimbap approve watch in another terminal",
		what, where, c.Undecided[0], where))
}

// Sane leaves out what no kimbap says: it comes from another machine, and goes to a
// terminal.
func (c Counts) Sane() Counts {
	odd := func(name string) bool {
		return name == "" || len(name) > maxSaidName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != ""
	}
	c.Undecided = slices.DeleteFunc(c.Undecided, odd)
	maps.DeleteFunc(c.Unauthorized, func(service string, _ runtime.CredentialUse) bool { return odd(service) })
	return c
}

// maxSaidName is the longest name of a service or an approval, in bytes.
const maxSaidName = 64
