package connected

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/runner"
)

// proxyFile is where `kimbap proxy --server` says where it is, and containersFile where
// one does that containers reach.
func proxyFile(folder string) string      { return filepath.Join(folder, "proxy.url") }
func containersFile(folder string) string { return filepath.Join(folder, "containers.url") }

// usualProxy is where `kimbap proxy --server` listens when it is not told.
const usualProxy = "127.0.0.1:7788"

// proxyOf is where the proxy of a server is on this machine.
func proxyOf(folder string) string {
	if at := announced(proxyFile(folder)); at != "" {
		return at
	}
	return runner.ProxyURL(usualProxy, "")
}

// announced is what a file says where a proxy is, "" where there is none.
func announced(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// announce tells `kimbap env --server`, by a file, where a proxy is, until forgotten.
func announce(file, proxy string) (forget func(), err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("folder of the server: %w", err)
	}
	if err := home.Replace(file, []byte(proxy+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("folder of the server: %w", err)
	}
	return func() {
		if announced(file) != proxy {
			return // a later one's
		}
		_ = os.Remove(file) // one that stays leads nowhere, and env says so
	}, nil
}
