package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/internal/server"
	"github.com/kimbap-run/kimbap/internal/server/console"
	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// APIOptions are what `kimbap serve` is told.
type APIOptions struct {
	Listen    string
	Cert, Key string           // files of TLS; "" for none
	Insecure  bool             // in clear also where others can reach it
	Proxy     bool             // lend a proxy to a kimbap elsewhere
	Console   bool             // serve the page for browsers
	Reload    <-chan os.Signal // may be nil

	// Ready is called once the listener accepts; pages is where the console is, "" without one.
	Ready func(url, pages string)
}

// ServeAPI serves the REST API until ctx ends, then drains it.
func (a *App) ServeAPI(ctx context.Context, o APIOptions) error {
	ln, base, err := a.entrance.ln, a.entrance.base, error(nil)
	if ln == nil {
		if ln, base, err = a.apiListener(o); err != nil {
			return err
		}
	}
	kick := make(chan os.Signal, 1)
	var lent *lender
	if o.Proxy {
		if lent, err = a.newLender(ctx); err != nil {
			return errors.Join(err, ln.Close())
		}
	}
	endLent := lent.beside(ctx)
	defer endLent()
	pages, err := a.apiConsole(o)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	s, err := a.newAPI(kick, lent, pages)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	kicked, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	event := record.Event{Kind: "serve", Fields: map[string]string{"listen": ln.Addr().String()}}
	return a.announced(ctx, serving{kind: roster.API, ln: ln, event: event, reload: merged(kicked, kick, o.Reload), follow: lent.follower(), serve: func() error {
		defer endLent()
		endAdmin, err := a.serveAdmin(ctx)
		if err != nil {
			return err
		}
		defer endAdmin()
		if o.Ready != nil {
			o.Ready(base, consoleAt(cmp.Or(a.config.Current().Serve.Origin(), base), pages))
		}
		return drained(ctx, drain, s, ln)
	}})
}

// consoleAt is where the console is, "" without one.
func consoleAt(base string, pages *console.Console) string {
	if pages == nil {
		return ""
	}
	return base + pages.Base()
}

func (a *App) newAPI(kick chan<- os.Signal, lent *lender, pages *console.Console) (*server.Server, error) {
	again := func() {
		select {
		case kick <- os.Interrupt:
		default: // it is on its way
		}
	}
	o := server.Options{
		Identify: a.identity.Identify, Execute: a.serveScript, Status: a.serveStatus, Resume: a.serveResume, Health: a.Health, Notice: a.restartNotice,
		RequireToken: true, Log: a.o.Log, Clock: a.o.Clock, Hosts: a.config.Current().Serve.Names(), Metrics: a.metrics,
		Agent: apiAgent{a, runtime.SurfaceREST}, Operator: apiOperator{a, again},
	}
	if lent != nil {
		o.Lender = lent
	}
	if pages != nil {
		o.Console = pages
	}
	return server.New(o)
}

// merged hands on what comes from either, until ctx ends.
func merged(ctx context.Context, one <-chan os.Signal, other <-chan os.Signal) <-chan os.Signal {
	out := make(chan os.Signal)
	go func() {
		for {
			var got os.Signal
			select {
			case got = <-one:
			case got = <-other:
			case <-ctx.Done():
				return
			}
			select {
			case out <- got:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// apiListener opens the address, in TLS where it is told to. What others can reach
// is not opened in clear by itself: tokens would be read on the way.
func (a *App) apiListener(o APIOptions) (net.Listener, string, error) {
	host, _, err := net.SplitHostPort(o.Listen)
	switch {
	case err != nil:
		return nil, "", &runtime.Error{Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%q is not an address to listen on", o.Listen), Hint: "kimbap serve --listen 127.0.0.1:8080"}
	case (o.Cert == "") != (o.Key == ""):
		return nil, "", &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "--tls-cert and --tls-key go together", Hint: "give both files"}
	case o.Cert == "" && !o.Insecure && !socket.Loopback(host):
		return nil, "", &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonInsecureScheme,
			Msg:  fmt.Sprintf("%s can be reached by others, and tokens would go there in clear", o.Listen),
			Hint: "give --tls-cert and --tls-key, listen on 127.0.0.1, or accept it with --insecure-listen",
		}
	}
	var pair tls.Certificate
	if o.Cert != "" {
		if pair, err = tls.LoadX509KeyPair(o.Cert, o.Key); err != nil {
			e := &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "the certificate cannot be used: " + err.Error(), Hint: "give a PEM file of the chain and one of its key"}
			if errors.Is(err, fs.ErrNotExist) {
				e.Reason = runtime.ReasonNotFound
			}
			return nil, "", e
		}
	}
	ln, err := socket.Listen(o.Listen, "kimbap serve --listen 127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	if o.Cert == "" {
		return ln, "http://" + ln.Addr().String(), nil
	}
	secure := tls.NewListener(ln, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}})
	return secure, "https://" + ln.Addr().String(), nil
}
