package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/runner/netns"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// remotePatience is how long the other side may take to give its certificate.
const remotePatience = 10 * time.Second

// maxRootPEM bounds what is read of it: two roots, while one takes over.
const maxRootPEM = 64 << 10

// RemoteOptions are those of a run behind a proxy elsewhere.
type RemoteOptions struct {
	RunOptions
	URL       string         // http://HOST:PORT of the proxy
	Token     runtime.Secret // an agent's, of that proxy's home
	TokenFile string         // where that is, "" for nowhere: an isolated program shall not see it
	Pins      []string       // SHA-256 of roots that may be trusted, hex, with or without colons
}

// RunRemote starts a program behind a proxy elsewhere and returns its exit code.
// Nothing is opened here: this side holds no key, no policy and no trail. Isolated the
// program does not have the token: this process shows it, for what comes out of the
// program's network.
func (a *App) RunRemote(ctx context.Context, o RemoteOptions) (int, error) {
	at, err := remoteURL(o.URL)
	if err != nil {
		return 0, err
	}
	root, err := fetchRoot(ctx, at, o.Pins)
	if err != nil {
		return 0, err
	}
	if o.Isolate {
		return a.runLedTo(ctx, at.Host, root, o)
	}
	token := o.Token.Reveal()
	return a.runBehind(o.RunOptions, elsewhere{proxy: runner.ProxyURL(at.Host, token), token: token, root: root})
}

// runLedTo starts a program in a network whose only way out leads to the proxy at an
// address.
func (a *App) runLedTo(ctx context.Context, address string, root []byte, o RemoteOptions) (int, error) {
	f := a.forwardingTo(ctx, address, o.Token, o.Say)
	defer f.end()
	cover := a.coverToken(o.TokenFile, o.NoCover)
	e := elsewhere{
		proxy: runner.ProxyURL(netns.ProxyAddress, ""), root: root, apart: true, hidden: cover.paths,
		led: &runner.Isolation{Serve: f.serveRoom},
	}
	defer onReplaced(ctx, cover.file, func() { o.Say(cover.replaced()) })()
	return a.runBehind(o.RunOptions, e)
}

// elsewhere is what a program is started behind whose kimbap is not here.
type elsewhere struct {
	proxy  string            // URL, with the token that the program shows
	token  string            // that token
	root   []byte            // PEM
	linked []string          // services that have a key there
	hidden []string          // further files that the program must not see
	apart  bool              // it must not look into this process either
	led    *runner.Isolation // a network of its own that leads there; nil: that of this machine
}

// runBehind starts a program whose kimbap is elsewhere, and returns its exit code.
func (a *App) runBehind(o RunOptions, e elsewhere) (int, error) {
	known, err := catalogued()
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp(filesOf(o), "kimbap-run-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	bundle, err := certs.Bundle(a.env["SSL_CERT_FILE"], e.root)
	if err != nil {
		return 0, err
	}
	place := runner.Place{
		Proxy: e.proxy, Token: e.token, CA: filepath.Join(dir, "ca.pem"), Bundle: filepath.Join(dir, "bundle.pem"),
		Settings: filepath.Join(dir, "clients"), Own: a.ownSettings(), Placeholders: a.standIns(known, e.linked),
	}
	for path, text := range map[string][]byte{place.CA: e.root, place.Bundle: bundle} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return 0, err
		}
	}
	if err := writeSettings(place.Settings, place, bundle); err != nil {
		return 0, err
	}
	options := runner.Options{
		Command: o.Command, Env: a.o.Env, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, Say: o.Say, Place: place,
		SecretNames: secretNames(known), IsSecret: func(string) bool { return false },
		Placeholder: holdsPlaceholder(known, func(string) (string, bool) { return "", false }),
		GitHosts:    gitHosts(named(known), e.linked), UserDir: a.env["HOME"], Self: o.Self, Bare: o.Bare, Isolate: e.led,
	}
	if !o.NoCover {
		options.Cover, options.Apart = a.hiddenHere(e.hidden), e.apart
	}
	return runner.Run(options)
}

// hiddenHere are the home, if there is one, and these files.
func (a *App) hiddenHere(files []string) []string {
	var out []string
	if info, err := os.Stat(a.home.Dir); err == nil && info.IsDir() {
		files = append([]string{a.home.Dir}, files...)
	}
	for _, one := range files {
		if path, err := filepath.Abs(one); err == nil {
			out = append(out, path)
		}
	}
	return out
}

// named finds services by their names.
func named(known []*services.Service) func(string) (*services.Service, bool) {
	return func(name string) (*services.Service, bool) {
		at := slices.IndexFunc(known, func(s *services.Service) bool { return s.Name == name })
		if at < 0 {
			return nil, false
		}
		return known[at], true
	}
}

// standIns are placeholders for the services that have a key elsewhere, and for the
// keys that this environment has under the catalogue's names: they are taken out,
// and a program that had one wants to see one. The names and values are those of the
// catalogue here: what is elsewhere names services, and sets no variable of its own.
func (a *App) standIns(known []*services.Service, linked []string) map[string]string {
	out := map[string]string{}
	for _, s := range known {
		for name, value := range s.Placeholders {
			if a.env[name] != "" || slices.Contains(linked, s.Name) {
				out[name] = value
			}
		}
	}
	return out
}

// remoteURL reads the address of a proxy.
func remoteURL(text string) (*url.URL, error) {
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "http" || at.Hostname() == "" || at.Port() == "" || at.User != nil || strings.Trim(at.Path, "/") != "" || at.RawQuery != "" {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%q is not the address of a proxy", text),
			Hint: "kimbap run --remote http://HOST:7788 --token-file FILE --pin SHA256 -- CMD",
		}
	}
	at.Path = ""
	return at, nil
}

// fetchRoot asks a proxy for its root certificate and returns what of the answer is
// pinned. The answer comes in clear, so nothing else of it may be believed.
func fetchRoot(ctx context.Context, at *url.URL, pins []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, remotePatience)
	defer cancel()
	text, err := askRoot(ctx, at)
	if err != nil {
		return nil, &runtime.Error{Code: runtime.CodeUpstream, Msg: "the proxy at " + at.Host + " does not give its certificate", Hint: "on its machine: kimbap status", Err: err}
	}
	return pinned("the proxy", text, pins)
}

// askRoot asks a proxy for what its programs must trust, showing it the user of its
// URL, if that has one. The question goes to that address itself: past the proxies of
// this environment, and nowhere that an answer leads.
func askRoot(ctx context.Context, proxy *url.URL) ([]byte, error) {
	at := *proxy
	at.User = nil
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.JoinPath("kimbap/ca.pem").String(), nil)
	if err != nil {
		return nil, err
	}
	if proxy.User != nil {
		password, _ := proxy.User.Password()
		req.SetBasicAuth(proxy.User.Username(), password)
		req.Header["Proxy-Authorization"] = req.Header["Authorization"]
		delete(req.Header, "Authorization")
	}
	client := http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxRootPEM))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answered %s", answer.Status)
	}
	return text, err
}

// pinned returns the certificates of a PEM text, which who has sent, that have one of
// the fingerprints.
func pinned(who string, text []byte, pins []string) ([]byte, error) {
	var wanted []string
	for _, pin := range pins {
		wanted = append(wanted, strings.ToLower(strings.ReplaceAll(strings.TrimSpace(pin), ":", "")))
	}
	var out bytes.Buffer
	var seen []string
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		sum := sha256.Sum256(block.Bytes)
		print := hex.EncodeToString(sum[:])
		if block.Type != "CERTIFICATE" {
			continue
		}
		seen = append(seen, print)
		if slices.Contains(wanted, print) {
			if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}); err != nil {
				return nil, err
			}
		}
	}
	if out.Len() > 0 {
		return out.Bytes(), nil
	}
	e := &runtime.Error{
		Code: runtime.CodeUpstreamTLS, Msg: who + " shows another certificate than the one that is pinned: " + strings.Join(seen, ", "),
		Hint: "compare with what its own machine says: kimbap ca show --jq .fingerprint",
	}
	if len(seen) == 0 {
		e.Msg = "the proxy shows no certificate"
	}
	return nil, e
}
