package main

import (
	"os"
	"strings"
	"testing"
)

// systemStore is a shell in a mount namespace of its own, in which copies stand in
// for the system's trust store, so that the commands of the system do their real
// work and the machine's own store stays as it is.
const systemStore = `set -e
export HOME=$PWD KIMBAP_HOME=$PWD/home
for dir in /etc/ssl/certs /usr/local/share/ca-certificates; do
  mkdir -p copy$dir && cp -a $dir/. copy$dir && mount --bind copy$dir $dir
done
grep -m 5 '^mozilla/' /etc/ca-certificates.conf >few && mount --bind few /etc/ca-certificates.conf # each root takes the command a tenth of a second
mkdir hooks && if [ -d /etc/ca-certificates/update.d ]; then mount --bind hooks /etc/ca-certificates/update.d; fi
kimbap init -q >/dev/null
update-ca-certificates --fresh >/dev/null 2>&1
list() { (cd /etc/ssl/certs && ls -1 && sha256sum ca-certificates.crt; ls -1 /usr/local/share/ca-certificates); }
list >before
trusted() { openssl verify -CApath /etc/ssl/certs "$1" >/dev/null 2>&1; }
if trusted home/ca/ca.pem; then echo "trusted before"; fi
kimbap ca install --yes
cp home/ca/installed-*.crt first.crt
openssl verify -CAfile /etc/ssl/certs/ca-certificates.crt first.crt
openssl verify -CApath /etc/ssl/certs first.crt
kimbap ca rotate --now -q >/dev/null
kimbap ca install --yes -q
ls /usr/local/share/ca-certificates | grep -c '^kimbap-'
if trusted first.crt; then echo "the old root is still trusted"; fi
kimbap ca uninstall --yes
list >after
cmp before after && echo "as before"
`

// The system's own command takes the CA up, and after uninstall its store is what
// it was, to the byte.
func TestTheSystemStoreIsAsBefore(t *testing.T) {
	needNamespace(t)
	needProgram(t, installed("unshare", "openssl", "update-ca-certificates"))
	const own = "/usr/local/share/ca-certificates"
	before, err := os.ReadDir(own)
	check(t, err)
	dir := t.TempDir()
	h := &home{user: dir}
	r := h.exec(t, []string{"PATH=" + os.Getenv("PATH")}, "", "unshare", "-m", "--propagation", "private", "sh", "-c", systemStore)
	want := []string{"installed in system (/usr/local/share/ca-certificates)", "first.crt: OK", "first.crt: OK", "installed in system (/usr/local/share/ca-certificates)", "1", "gone from system (/usr/local/share/ca-certificates)", "as before"}
	if r.code != 0 || strings.Join(strings.Split(strings.TrimSpace(r.stdout), "\n"), "|") != strings.Join(want, "|") {
		t.Errorf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
	after, err := os.ReadDir(own)
	check(t, err)
	if len(after) != len(before) {
		t.Errorf("the machine's own store has %d files, was %d", len(after), len(before))
	}
}
