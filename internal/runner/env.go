package runner

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Place is where a client finds the proxy and the certificates that make it
// trusted.
type Place struct {
	Proxy        string            // URL, with the token where one is needed; see ProxyURL
	Token        string            // that token, for clients which do not take it from the URL; "": they get none
	ProxyFile    string            // for docker: a file with the variables that name the proxy, with a token; "": as words
	CA           string            // file with our root alone, for variables that add
	Bundle       string            // file with the system's roots and ours, for variables that replace
	Settings     string            // folder with the files of SettingsFiles, for clients that have no such variable
	Own          map[string]string // what Own picks from the user's environment; nil in a container
	Before       map[string]string // of Before, to be kept by the shell, or of Kept, to be given back to it; nil: nothing is
	Given        map[string]string // of Given, for the shell to keep beside Before
	Theirs       []string          // of Theirs: what stays when the variables are taken back; nil: nothing does
	Placeholders map[string]string // what SDKs want to see before they start: GITHUB_TOKEN=…
	Socket       string            // where kimbap itself can be asked without the proxy; "": nowhere
	Served       []string          // hosts of this machine that services own, so that they are not kept from the proxy
}

// proxyUser stands before the token, and means nothing.
const proxyUser = "kimbap"

// ProxyURL is where a proxy is found that wants to see a token, "" for none. The
// token is the password: wget, Python's requests and undici send nothing for a URL
// that has only a user.
func ProxyURL(address, token string) string {
	if token == "" {
		return "http://" + address
	}
	return (&url.URL{Scheme: "http", User: url.UserPassword(proxyUser, token), Host: address}).String()
}

// Variable is one entry of an environment.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Which variable a client reads is measured, not guessed: docs/clients.md has
// the table.
var (
	proxyNames = []string{
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
		"http_proxy", "https_proxy", "all_proxy",
		"YARN_HTTPS_PROXY", // Yarn from 2 on; that for http would take its loopback along, which knows no NO_PROXY
	}
	replacing = []string{ // a file that replaces the client's own roots
		"SSL_CERT_FILE",                      // Go, OpenSSL, Python ssl, Ruby
		"CURL_CA_BUNDLE",                     // curl
		"REQUESTS_CA_BUNDLE",                 // Python requests
		"GIT_SSL_CAINFO",                     // git
		"HTTPLIB2_CA_CERTS",                  // httplib2
		"AWS_CA_BUNDLE",                      // aws, boto3
		"PIP_CERT",                           // pip
		"npm_config_cafile",                  // npm
		"CARGO_HTTP_CAINFO",                  // cargo
		"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", // gcloud
		"CODEX_CA_CERTIFICATE",               // Codex
		"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",   // gRPC of Python, Ruby, PHP, C++ and Node
		"WEBSOCKET_CLIENT_CA_BUNDLE",         // Python websocket-client
		"PERL_LWP_SSL_CA_FILE",               // Perl LWP; HTTP::Tiny and Mojo read SSL_CERT_FILE
	}
	adding = []string{"NODE_EXTRA_CA_CERTS", "DENO_CERT"} // a file beside the client's own roots
)

// RootVariables are those that name files of roots: that replace a client's own, and that
// add to them.
func RootVariables() (replace, add []string) { return slices.Clone(replacing), slices.Clone(adding) }

// socketVar tells a program of a run where it can ask kimbap itself.
const socketVar = "KIMBAP_SOCKET"

// keptOff are the hosts that a client reaches without the proxy. Patterns such as *.local
// work in Go alone, so there are none.
var keptOff = []string{"localhost", "127.0.0.1", "::1"}

// noProxy keeps a client's own loopback traffic to itself, but for the hosts that
// services own.
func (p Place) noProxy() []string {
	return slices.DeleteFunc(slices.Clone(keptOff), func(host string) bool { return slices.Contains(p.Served, host) })
}

// Variables returns what a client needs in its environment, in a stable order.
func Variables(p Place) []Variable {
	var out []Variable
	add := func(value string, names ...string) {
		for _, name := range names {
			out = append(out, Variable{name, value})
		}
	}
	add(p.Proxy, proxyNames...)
	add(strings.Join(p.noProxy(), ","), "NO_PROXY", "no_proxy")
	add("1", "NODE_USE_ENV_PROXY", "PERL_LWP_ENV_PROXY", "MOJO_PROXY") // these read the proxy's variables only when told
	add(p.Bundle, replacing...)
	add(p.CA, adding...)
	out = append(out, settings(p)...)
	if p.Socket != "" {
		add(p.Socket, socketVar)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Placeholders)) {
		add(p.Placeholders[name], name)
	}
	return out
}
