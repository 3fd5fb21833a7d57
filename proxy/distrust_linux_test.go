package proxy

import (
	"os"
	"os/exec"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// nodeDistrusts opens a tunnel and TLS inside it, as agents written for Node do.
const nodeDistrusts = `
const net = require('node:net'), tls = require('node:tls');
const [host, port] = process.argv[1].split(':');
const raw = net.connect(port, host, () => raw.write('CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n'));
raw.once('data', () => {
  const inside = tls.connect({socket: raw, servername: 'api.good.test'}, () => process.exit(0));
  inside.on('error', () => process.exit(1));
});`

const pythonDistrusts = `
import sys, urllib.request
proxy = urllib.request.ProxyHandler({"https": "http://" + sys.argv[1]})
urllib.request.build_opener(proxy).open("https://api.good.test/")`

// Programs that do not take our certificate say so each in its own way: encrypted,
// in clear where it should be encrypted, or by going without a word. All of it shows
// in the trail, once.
func TestProgramsThatDistrustUsAreRecorded_TL010(t *testing.T) {
	const at = "https://api.good.test/"
	for name, argv := range map[string]func(proxy string) []string{
		"curl": func(p string) []string { return []string{"curl", "-sS", "--proxy", "http://" + p, at} },
		"curl TLS 1.2": func(p string) []string {
			return []string{"curl", "-sS", "--tls-max", "1.2", "--proxy", "http://" + p, at}
		},
		"wget": func(p string) []string {
			return []string{"wget", "-q", "-O", "-", "-t", "1", "-e", "https_proxy=http://" + p, at}
		},
		"python": func(p string) []string { return []string{"python3", "-c", pythonDistrusts, p} },
		"node":   func(p string) []string { return []string{"node", "-e", nodeDistrusts, p} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			line := argv(r.addr)
			cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
			said, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("it was content: %s", said)
			}
			if _, ran := err.(*exec.ExitError); !ran { //nolint:errorlint // what Run returns itself
				t.Fatalf("this test needs %s; install it with .ci/setup: %v", line[0], err)
			}
			rec := r.outcome()
			if rec.Err == nil || rec.Err.Reason != runtime.ReasonClientRejected || rec.Target.Authority != "api.good.test:443" {
				t.Errorf("it said %s\nrecorded %+v", said, rec)
			}
		})
	}
}
