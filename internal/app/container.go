package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/runtime"
)

// containerTTL is how long the token of `kimbap env --shell docker` is valid.
const containerTTL = 24 * time.Hour

// ExportClients writes what a container mounts at /etc/kimbap: ca.pem, bundle.pem and
// the settings of clients that read no variable, for a proxy at this URL as the
// container sees it. Nothing in it is secret.
func (a *App) ExportClients(ctx context.Context, dir, proxy string) error {
	ca, err := a.CA(ctx)
	if err != nil {
		return err
	}
	bundle, err := os.ReadFile(ca.BundleFile())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("folder for containers: %w", err)
	}
	for name, text := range map[string][]byte{"ca.pem": ca.RootPEM(), "bundle.pem": bundle} {
		if err := home.Replace(filepath.Join(dir, name), text, 0o644); err != nil {
			return fmt.Errorf("folder for containers: %w", err)
		}
	}
	return outfit.WriteSettings(filepath.Join(dir, "clients"), runner.InContainer(runner.Place{Proxy: proxy}), bundle)
}

// tokenForContainers mints the token that containers show, and puts the variables
// that hold it into a file for docker: arguments can be read by everybody on the
// machine.
func (a *App) tokenForContainers(ctx context.Context, place *runner.Place) (note string, err error) {
	token, info, err := a.CreateToken(ctx, TokenGrant{Agent: "docker", Scopes: []string{"*"}, TTL: containerTTL})
	if err != nil {
		return "", err
	}
	address := strings.TrimPrefix(place.Proxy, "http://")
	place.ProxyFile, err = filepath.Abs(filepath.Join(a.home.State(), "docker.env"))
	if err == nil {
		err = home.Replace(place.ProxyFile, []byte(runner.ProxyVariables(runner.ProxyURL(address, token.Reveal()))), 0o600)
	}
	return fmt.Sprintf("containers show a token that is valid for a day; to end it: kimbap token revoke %s", info.ID), err
}

// reachable says what to do when containers do not reach the proxy where it
// listens, "" when they do.
func (a *App) reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || !socket.Loopback(host) || goruntime.GOOS != "linux" { // elsewhere the engine leads host.docker.internal to loopback
		return ""
	}
	return fmt.Sprintf("a container does not reach %s of this machine; start the proxy on the bridge: kimbap proxy --listen %s --auth token --insecure-listen", listen, outfit.Bridge(port))
}

// Healthy asks the proxies that run over this home whether they can work, and
// fails when none runs or one cannot. The home need not be open.
func (a *App) Healthy(ctx context.Context) error {
	running := a.Proxies()
	if len(running) == 0 {
		return &runtime.Error{Code: runtime.CodeAuditUnavailable, Msg: "no proxy runs over this home", Hint: "kimbap proxy"}
	}
	for _, r := range running {
		if err := healthy(ctx, r.Listen); err != nil {
			return &runtime.Error{Code: runtime.CodeAuditUnavailable, Msg: "the proxy at " + r.Listen + " is not well", Hint: "kimbap doctor", Err: err}
		}
	}
	return nil
}

// healthy asks one listener. Who listens on every address is asked on loopback.
func healthy(ctx context.Context, listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
		if ip.To4() != nil {
			host = "127.0.0.1"
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}, Timeout: 5 * time.Second}
	answer, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if answer.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(said)))
	}
	return nil
}
