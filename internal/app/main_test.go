package app_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// role names what this test binary does when a test starts it again.
const role = "KIMBAP_TEST_ROLE"

func TestMain(m *testing.M) {
	if what := os.Getenv(role); what != "" {
		os.Exit(child(what, os.Args[1:]))
	}
	goleak.VerifyTestMain(runtimetest.Settled{M: apptest.Tidy{M: m}})
}

// child is another process over the home in args[0].
func child(what string, args []string) int {
	goruntime.LockOSThread() // strace counts the steps of each thread by itself
	if what == "approvals" {
		return approvalsChild(args)
	}
	if what == "send" {
		if err := sender(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	log := &apptest.Buffer{}
	slot := map[string]string{"proxy": "proxy"}[what]
	o := apptest.OptionsOver(args[0], slot, log, false)
	o.StartLocked = what == "unlock"
	if what == "prune" {
		o.Clock = inTenHours
	}
	a, err := app.New(o)
	if err == nil {
		err = a.Open(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	switch what {
	case "proxy": // until it is killed, or its stdin ends
		app.LongLived(true)
		ctx, stop := context.WithCancel(context.Background())
		go func() { _, _ = os.Stdin.Read(make([]byte, 1)); stop() }()
		err = a.Serve(ctx, app.ServeOptions{Listen: "127.0.0.1:0", State: true, Ready: func(addr net.Addr) { fmt.Println(addr) }})
	case "tokens": // a short command, over and over
		for range 20 {
			if _, _, err = a.CreateToken(context.Background(), app.TokenGrant{Agent: "child", Scopes: []string{"*"}, TTL: time.Hour}); err != nil {
				break
			}
		}
	case "lock":
		_, err = a.LockVault(context.Background(), 0)
	case "unlock":
		err = a.UnlockVault(context.Background(), runtime.NewSecret(args[1]))
	case "vault-set":
		_, _, err = a.SetSecret(context.Background(), args[1], runtime.NewSecret(args[2]), app.SecretOptions{Hosts: []string{apptest.Host}})
	case "ca-rotate":
		_, err = a.RotateCA(context.Background(), false)
	case "prune":
		_, err = a.AnchorTrail(context.Background())
	case "rotate-master":
		_, err = a.RotateMasterKey(context.Background())
	case "rotate-tenant":
		_, err = a.RotateTenantKey(context.Background())
	case "rotate-secret":
		_, err = a.RotateSecret(context.Background(), "secret-0", runtime.NewSecret("rotated-"+args[1]), time.Time{})
	}
	if closing := a.Close(); err == nil {
		err = closing
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err, log)
		return 1
	}
	return 0
}

// start is the command that runs a role in a process of its own.
func start(t *testing.T, what string, args ...string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	said := &strings.Builder{}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), role+"="+what)
	cmd.Stderr = said
	return cmd, said
}

// inTenHours is the clock of a process in which records of now are past their retention.
func inTenHours() time.Time { return time.Now().Add(10 * time.Hour) }
