package connected

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/runner/netns"
	"github.com/kimbap-run/kimbap/runtime"
)

// patience is how long the other side may take to give its certificate.
const patience = 10 * time.Second

// BareOptions are those of a run behind a bare proxy elsewhere.
type BareOptions struct {
	outfit.Run
	URL       string         // http://HOST:PORT of the proxy
	Token     runtime.Secret // an agent's, of that proxy's home
	TokenFile string         // where that is, "" for nowhere: an isolated program shall not see it
	Pins      []string       // SHA-256 of roots that may be trusted, hex, with or without colons
}

// RunBare starts a program behind a bare proxy elsewhere and returns its exit code.
// Nothing is opened here: this side holds no key, no policy and no trail. Isolated the
// program does not have the token: this process shows it, for what comes out of the
// program's network.
func (m *Machine) RunBare(ctx context.Context, o BareOptions) (int, error) {
	if err := keepable(o.TokenFile); o.Isolate && err != nil {
		return 0, err
	}
	if err := outfit.Withhold(o.TokenFile); o.Isolate && err != nil {
		return 0, err
	}
	at, err := remoteURL(o.URL)
	if err != nil {
		return 0, err
	}
	root, err := fetchRoot(ctx, at, o.Pins)
	if err != nil {
		return 0, err
	}
	if o.Isolate {
		return m.runLedTo(ctx, at.Host, root, o)
	}
	token := o.Token.Reveal()
	return m.runBehind(o.Run, elsewhere{proxy: runner.ProxyURL(at.Host, token), token: token, root: root})
}

// runLedTo starts a program in a network whose only way out leads to the proxy at an
// address.
func (m *Machine) runLedTo(ctx context.Context, address string, root []byte, o BareOptions) (int, error) {
	f := forwardingTo(ctx, address, o.Token, o.Say)
	defer f.end()
	cover := m.coverToken(o.TokenFile, o.NoCover)
	e := elsewhere{
		proxy: runner.ProxyURL(netns.ProxyAddress, ""), root: root, apart: true, hidden: cover.Paths,
		led: &runner.Isolation{Serve: f.serveRoom},
	}
	defer onReplaced(ctx, cover.File, func() { o.Say(replaced(cover)) })()
	return m.runBehind(o.Run, e)
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
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text, err := askRoot(ctx, at)
	if err != nil {
		return nil, &runtime.Error{Code: runtime.CodeUpstream, Msg: "the proxy at " + at.Host + " does not give its certificate", Hint: "on its machine: kimbap status", Err: err}
	}
	root, err := pinned("the proxy", text, pins)
	if err == nil {
		err = signsWith("the proxy", text, root)
	}
	return root, err
}
