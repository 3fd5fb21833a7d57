package app

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/socket"
)

// containerTTL is how long the token of `kimbap env --shell docker` is valid.
const containerTTL = 24 * time.Hour

// ExportClients writes what a container mounts at /etc/kimbap: ca.pem, bundle.pem and
// the settings of clients that read no variable, for a proxy at this URL as the
// container sees it. Nothing in it is secret.
func (a *App) ExportClients(ctx context.Context, dir, proxy string) error {
	ca, err := a.ShownCA(ctx)
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
