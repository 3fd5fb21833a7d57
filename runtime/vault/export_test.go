package vault_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// boxes are a place to write to and the keys to read it.
func boxes(t *testing.T) (to, from vault.Lockbox) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return vault.Lockbox{Recipients: []string{id.Recipient().String()}}, vault.Lockbox{Identities: id.String()}
}

func TestExportAndImport(t *testing.T) {
	r := referenceRig(t, &store{value: "fetched"})
	ctx := t.Context()
	r.set(t, tenant, "a", canary, "a.example:443", "b.example:443")
	if _, err := r.SetUntil(ctx, tenant, "b", runtime.NewSecret("value-of-b"), []string{host}, r.clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	r.refer(t, "c", time.Minute)
	r.set(t, "b", "theirs", "value-of-theirs")
	to, from := boxes(t)
	data, names, err := r.Export(ctx, tenant, nil, to)
	if err != nil || strings.Join(names, " ") != "a b c" {
		t.Fatalf("%v %v", names, err)
	}
	for _, plain := range []string{canary, "value-of-b", "a.example", "theirs"} {
		if bytes.Contains(data, []byte(plain)) {
			t.Errorf("the export shows %s", plain)
		}
	}

	other := referenceRig(t, &store{value: "fetched"})
	e, err := other.OpenExport(data, from)
	if err != nil {
		t.Fatal(err)
	}
	dry, err := other.Import(ctx, tenant, e, vault.ImportOptions{Dry: true})
	if err != nil || len(dry) != 3 || len(other.store.rows) != 0 {
		t.Fatalf("a dry run: %+v, %d rows, %v", dry, len(other.store.rows), err)
	}
	_, err = other.Import(ctx, tenant, e, vault.ImportOptions{}) // for its command
	wants(t, err, runtime.CodeInvalidInput, "")
	if len(other.store.rows) != 0 {
		t.Error("half of it was stored")
	}
	if _, err := other.Import(ctx, tenant, e, vault.ImportOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if other.value(t, tenant, "a") != canary || other.value(t, tenant, "b") != "value-of-b" || other.value(t, tenant, "c") != "fetched" {
		t.Error("a value is another")
	}
	if _, err := other.Import(ctx, tenant, e, vault.ImportOptions{}); err != nil { // again: nothing changes
		t.Error(err)
	}
	other.set(t, tenant, "a", "changed meanwhile")
	changes, err := other.Import(ctx, tenant, e, vault.ImportOptions{})
	wants(t, err, runtime.CodeInvalidInput, "")
	if len(changes) != 3 || changes[0].Change != vault.ChangeValue || other.value(t, tenant, "a") != "changed meanwhile" {
		t.Errorf("%+v", changes)
	}
	other.clock.Advance(2 * time.Hour)
	changes, err = other.Import(ctx, tenant, e, vault.ImportOptions{Force: true})
	if err != nil || changes[1].Change != vault.ChangeExpired || other.value(t, tenant, "a") != canary {
		t.Errorf("%+v %v", changes, err)
	}
}

// A key is bytes, and JSON has letters only: one that is not UTF-8 comes back as it was.
func TestAnExportKeepsEveryByte(t *testing.T) {
	r, other := newRig(t), newRig(t)
	values := map[string]string{"latin-1": "p\xe4sswort", "half-a-rune": "abc\xe2\x82", "binary": "\xff\xfe\x80key", "utf-8": "p\u00e4ss\ufffdwort"}
	for name, value := range values {
		r.set(t, tenant, name, value)
	}
	to, from := boxes(t)
	data, _, err := r.Export(t.Context(), tenant, nil, to)
	if err != nil {
		t.Fatal(err)
	}
	e, err := other.OpenExport(data, from)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Import(t.Context(), tenant, e, vault.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, value := range values {
		if got := other.value(t, tenant, name); got != value {
			t.Errorf("%s: %q came back as %q", name, value, got)
		}
	}
}

// VC-011: an export by passphrase has a salt of its own and a slow derivation
// (scrypt with N = 2^18, 256 MiB, above what is asked of Argon2id); no master key
// comes from a passphrase, so nothing derives one while requests run.
func TestPassphrasesAreSlowAndSalted(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "a", canary)
	box := vault.Lockbox{Passphrase: runtime.NewSecret("six words that nobody would guess")}
	export := func() []byte {
		data, _, err := r.Export(t.Context(), tenant, nil, box)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	first := export()
	one, two := scryptStanza(t, first), scryptStanza(t, export())
	_, err := r.OpenExport(first, vault.Lockbox{Passphrase: runtime.NewSecret("six words that nobody would gues")})
	wants(t, err, runtime.CodeInvalidInput, "")
	if !strings.HasSuffix(one, " 18") || !strings.HasSuffix(two, " 18") || one == two {
		t.Errorf("derived as %q and %q", one, two)
	}
}

func TestExportsThatAreRefused(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "a", canary)
	to, from := boxes(t)
	_, other := boxes(t)
	words := runtime.NewSecret("six words that nobody would guess")
	for name, box := range map[string]vault.Lockbox{
		"nobody": {}, "both": {Recipients: to.Recipients, Passphrase: words}, "no key": {Recipients: []string{"hunter2"}}, "short": {Passphrase: runtime.NewSecret("short")},
	} {
		data, _, err := r.Export(t.Context(), tenant, nil, box)
		wants(t, err, runtime.CodeInvalidInput, "")
		if data != nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, _, err := r.Export(t.Context(), tenant, []string{"none"}, to)
	wants(t, err, runtime.CodeInvalidInput, runtime.ReasonNotFound)
	data, _, err := r.Export(t.Context(), tenant, []string{"a"}, to)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		box  vault.Lockbox
	}{
		"another's key": {data, other}, "no key": {data, vault.Lockbox{}}, "a passphrase": {data, vault.Lockbox{Passphrase: words}},
		"both": {data, vault.Lockbox{Identities: from.Identities, Passphrase: words}}, "not a key": {data, vault.Lockbox{Identities: "hunter2"}},
		"cut": {data[:len(data)-60], from}, "not an export": {[]byte(canary), from}, "changed": {bytes.Replace(data, data[200:204], []byte("AAAA"), 1), from},
	} {
		e, err := r.OpenExport(c.data, c.box)
		wants(t, err, runtime.CodeInvalidInput, "")
		if e != nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// scryptStanza is the line of an export's header that says how its key is derived.
func scryptStanza(t *testing.T, data []byte) string {
	t.Helper()
	plain, err := io.ReadAll(io.LimitReader(armor.NewReader(bytes.NewReader(data)), 500))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(plain)) {
		if strings.HasPrefix(line, "-> scrypt ") {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("no derivation in %q", plain)
	return ""
}

// What fits into an export comes out of it, however long it is.
func TestALongExportIsRead(t *testing.T) {
	to, from := boxes(t)
	recipient, err := age.ParseX25519Recipient(to.Recipients[0])
	if err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	w, err := age.Encrypt(&data, recipient)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`{"kimbap_vault": 1, "secrets": [`, strings.Repeat(" ", 65<<20), `{"name": "a", "value": "last", "hosts": ["a.example:443"]}]}`} {
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	e, err := r.OpenExport(data.Bytes(), from)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Import(t.Context(), tenant, e, vault.ImportOptions{}); err != nil || r.value(t, tenant, "a") != "last" {
		t.Error(err)
	}
}
