package sqlite_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/identity"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/runtime/store/sqlite"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// role makes this test binary a second kimbap that opens a home.
const role = "KIMBAP_TEST_HOME"

func TestMain(m *testing.M) {
	if dir := os.Getenv(role); dir != "" {
		if err := openHome(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(runtimetest.Settled{M: m})
}

// openHome opens an empty or a filled home as kimbap does and prints what must
// be the same for all who opened it.
func openHome(dir string) error {
	ctx := context.Background()
	fmt.Println("ready")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil { // all start together
		return err
	}
	key, err := vault.NewMasterKeyFile(filepath.Join(dir, "master.key"))
	if err != nil {
		return err
	}
	db, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "kimbap.db"), Create: true})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	v, err := vault.New(vault.Options{Store: db, Key: key, Clock: time.Now})
	if err != nil {
		return err
	}
	if err := v.Open(ctx); err != nil {
		return err
	}
	hash, err := v.HashKey(ctx, runtime.DefaultTenant)
	if err != nil {
		return err
	}
	check, err := db.CheckValue(ctx)
	fmt.Println(hash("same?"), hex.EncodeToString(check))
	return err
}

// Two processes that open an empty home at once end with one master key, one
// check value and one tenant key; also when a third was killed on its way.
func TestTwoProcessesOpenAnEmptyHome(t *testing.T) {
	for round := range 3 {
		dir := t.TempDir()
		killed := startHome(t, dir)
		killed.start(t)
		time.Sleep(time.Duration(round*4) * time.Millisecond) // somewhere on its way; any place must do
		_ = killed.Process.Kill()
		_ = killed.Wait()

		children := []*child{startHome(t, dir), startHome(t, dir), startHome(t, dir)}
		for _, c := range children {
			c.start(t)
		}
		var first string
		for i, c := range children {
			if err := c.Wait(); err != nil {
				t.Fatalf("process %d: %v %s", i, err, c.stderr.String())
			}
			if out := c.stdout.String(); i == 0 {
				first = out
			} else if out != first || len(out) < 100 {
				t.Errorf("process %d has\n%s, the first has\n%s", i, out, first)
			}
		}
	}
}

type child struct {
	*exec.Cmd
	stdin          io.Writer
	stdout, stderr bytes.Buffer
}

func startHome(t *testing.T, dir string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{Cmd: exec.Command(self)}
	c.Env = append(os.Environ(), role+"="+dir)
	c.Stdout, c.Stderr = &c.stdout, &c.stderr
	if c.stdin, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *child) start(t *testing.T) {
	t.Helper()
	if _, err := c.stdin.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
}

// VC-013, G14, TK-011: whoever has the disk but not the master key finds no
// credential, no user name, no token and no held request in it.
func TestStolenDisk(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	db := opened(t, filepath.Join(dir, "kimbap.db"), true)
	key, err := vault.ParseMasterKey("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.New(vault.Options{Store: db, Key: key, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Open(ctx); err != nil {
		t.Fatal(err)
	}
	var canaries []string
	for i := range 20 {
		canaries = append(canaries, fmt.Sprintf("CANARY-%d-%x", i, time.Now().UnixNano()))
		if _, err := v.Set(ctx, runtime.DefaultTenant, fmt.Sprint("n", i%10), runtime.NewSecret(canaries[i]), []string{"a.example:443"}); err != nil {
			t.Fatal(err)
		}
	}
	id, err := identity.New(identity.Options{Store: db, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		secret, _, err := id.Mint(ctx, identity.Operator(1), identity.Grant{Tenant: "default", Agent: "claude", Scopes: []runtime.Scope{"*"}, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := id.Identify(ctx, runtime.Caller{Token: secret}); err != nil {
			t.Fatal(err)
		}
		canaries = append(canaries, secret.Reveal(), secret.Reveal()[4:])
	}
	held, err := v.SealFor(ctx, runtime.DefaultTenant, "request", []byte(canaries[0]+" in a held body"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.SetCheckValue(ctx, held); err == nil {
		t.Fatal("there is a check value already")
	}
	if err := db.SetLock(ctx, vault.Lock{Since: time.Now(), By: string(held)}); err != nil {
		t.Fatal(err)
	}
	look := func(when string) {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, f := range files {
			content, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range canaries {
				if bytes.Contains(content, []byte(c)) || bytes.Contains(content, []byte(hex.EncodeToString([]byte(c)))) {
					t.Errorf("%s: %s holds %s", when, filepath.Base(f), c)
				}
			}
		}
	}
	look("open, with log and shared memory")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	look("closed")
}

// The whole of the vault over a real store: another process's change is seen
// by the counter and then by Forget.
func TestChangeReachesTheOtherProcess(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "kimbap.db")
	key, err := vault.ParseMasterKey("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")
	if err != nil {
		t.Fatal(err)
	}
	var vaults []*vault.Vault
	var stores []*sqlite.DB
	for i := range 2 {
		stores = append(stores, opened(t, path, i == 0))
		v, err := vault.New(vault.Options{Store: stores[i], Key: key, Clock: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Open(ctx); err != nil {
			t.Fatal(err)
		}
		vaults = append(vaults, v)
	}
	auth := &runtime.Auth{Type: runtime.AuthBearer, Ref: "n"}
	before, err := stores[0].Changes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := vaults[0].Credential(ctx, "default", auth); err != nil || c.Found() {
		t.Fatal(c, err)
	}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if _, err := vaults[i%2].Set(context.Background(), "default", "n", runtime.NewSecret("x"), []string{"a:1"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if after, err := stores[0].Changes(ctx); err != nil || after <= before {
		t.Errorf("the counter went from %d to %d (%v)", before, after, err)
	}
	for _, v := range vaults {
		v.Forget()
		if c, err := v.Credential(ctx, "default", auth); err != nil || c.Version != 10 {
			t.Errorf("version %d %v", c.Version, err)
		}
		if err := v.Flush(ctx); err != nil {
			t.Error(err)
		}
	}
	if list, err := vaults[0].List(ctx, "default"); err != nil || len(list) != 1 || list[0].LastUsed.IsZero() {
		t.Errorf("list %+v %v", list, err)
	}
}
