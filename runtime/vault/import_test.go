package vault_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// An import that would let a stored value go elsewhere, or live longer, needs to be forced,
// as one that brings another value does.
func TestAnImportWidensNothingUnasked(t *testing.T) {
	from := func(hosts []string, expires time.Duration) *vault.Export {
		r := newRig(t)
		var end time.Time
		if expires > 0 {
			end = r.clock.Now().Add(expires)
		}
		if _, err := r.SetUntil(t.Context(), tenant, "n", runtime.NewSecret(canary), hosts, end); err != nil {
			t.Fatal(err)
		}
		to, key := boxes(t)
		data, _, err := r.Export(t.Context(), tenant, nil, to)
		if err != nil {
			t.Fatal(err)
		}
		e, err := r.OpenExport(data, key)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for name, c := range map[string]struct {
		e    *vault.Export
		want string
	}{
		"the same":     {from([]string{host}, time.Hour), vault.ChangeSame},
		"more hosts":   {from([]string{host, "evil.example:443"}, time.Hour), vault.ChangeHosts},
		"other hosts":  {from([]string{"evil.example:443"}, time.Hour), vault.ChangeHosts},
		"a longer end": {from([]string{host}, 2*time.Hour), vault.ChangeHosts},
		"no end":       {from([]string{host}, 0), vault.ChangeHosts},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if _, err := r.SetUntil(t.Context(), tenant, "n", runtime.NewSecret(canary), []string{host}, r.clock.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			before := fmt.Sprint(r.store.rows)
			changes, err := r.Import(t.Context(), tenant, c.e, vault.ImportOptions{})
			if len(changes) != 1 || changes[0].Change != c.want || (err == nil) != (c.want == vault.ChangeSame) {
				t.Errorf("%+v %v", changes, err)
			}
			if fmt.Sprint(r.store.rows) != before {
				t.Error("it was stored")
			}
			if c.want == vault.ChangeSame {
				if changes, err := r.Import(t.Context(), tenant, c.e, vault.ImportOptions{Force: true}); err != nil || changes[0].Version != 1 || fmt.Sprint(r.store.rows) != before {
					t.Errorf("forced: %+v %v", changes, err)
				}
			}
		})
	}
}

// A reference is another value than the one that is stored, also where both are as long.
func TestAnImportedCommandIsAnotherValue(t *testing.T) {
	other := referenceRig(t, &store{value: "fetched"})
	other.refer(t, "n", time.Minute)
	to, key := boxes(t)
	data, _, err := other.Export(t.Context(), tenant, nil, to)
	if err != nil {
		t.Fatal(err)
	}
	e, err := other.OpenExport(data, key)
	if err != nil {
		t.Fatal(err)
	}
	r := referenceRig(t, &store{value: "fetched"})
	r.refer(t, "n", time.Hour)
	changes, err := r.Import(t.Context(), tenant, e, vault.ImportOptions{})
	wants(t, err, runtime.CodeInvalidInput, "")
	if len(changes) != 1 || changes[0].Change != vault.ChangeValue {
		t.Errorf("%+v", changes)
	}
}

// What has expired is left out, also where nothing of its name is stored; what comes in is
// kept out of the log from then on.
func TestAnImportTakesWhatIsOfUse(t *testing.T) {
	r := newRig(t)
	if _, err := r.SetUntil(t.Context(), tenant, "old", runtime.NewSecret("old-value"), []string{host}, r.clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	r.set(t, tenant, "new", "new-value")
	r.set(t, tenant, "other", "other-value")
	to, key := boxes(t)
	data, names, err := r.Export(t.Context(), tenant, []string{"old", "new"}, to)
	if err != nil || !slices.Equal(names, []string{"new", "old"}) {
		t.Fatalf("exported %v, %v", names, err)
	}
	into := newRig(t)
	into.clock.Advance(time.Hour)
	e, err := into.OpenExport(data, key)
	if err != nil {
		t.Fatal(err)
	}
	changes, err := into.Import(t.Context(), tenant, e, vault.ImportOptions{})
	if err != nil || len(changes) != 2 || len(into.store.rows) != 1 {
		t.Fatalf("%+v, %d rows, %v", changes, len(into.store.rows), err)
	}
	if !hidden(into.Vault, "new-value") {
		t.Error("the log would show an imported value")
	}
	if into.value(t, tenant, "new") != "new-value" {
		t.Error("it was not imported")
	}
}

// hidden reports whether a log keeps the value out.
func hidden(v *vault.Vault, value string) bool {
	return slices.ContainsFunc(v.Live(), func(s runtime.Secret) bool { return s.Reveal() == value })
}

// Whoever knows the public key of a home can write a file that it opens: nothing comes in that
// could not be stored otherwise.
func TestAnExportThatSomebodyWroteIsChecked(t *testing.T) {
	to, key := boxes(t)
	recipient, err := age.ParseX25519Recipient(to.Recipients[0])
	if err != nil {
		t.Fatal(err)
	}
	const good = `{"name": "a", "value": "v", "hosts": ["a.example:443"]}`
	open := func(text string) (*vault.Export, error) {
		t.Helper()
		var data bytes.Buffer
		w, err := age.Encrypt(&data, recipient)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return newRig(t).OpenExport(data.Bytes(), key)
	}
	file := func(secrets string) string { return `{"kimbap_vault": 1, "secrets": [` + secrets + `]}` }
	if _, err := open(file(good)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"no JSON":               `{"kimbap_vault": 1, "secrets": [` + good,
		"another version":       `{"kimbap_vault": 2, "secrets": [` + good + `]}`,
		"no version":            `{"secrets": [` + good + `]}`,
		"one name twice":        file(good + ", " + good),
		"neither value nor":     file(`{"name": "a", "hosts": ["a.example:443"]}`),
		"a value and a command": file(`{"name": "a", "value": "v", "reference": {"command": ["/bin/x"]}, "hosts": ["a.example:443"]}`),
		"an empty command":      file(`{"name": "a", "reference": {"command": [""]}, "hosts": ["a.example:443"]}`),
		"a value too long":      file(`{"name": "a", "value": "` + strings.Repeat("x", 1<<16+1) + `", "hosts": ["a.example:443"]}`),
		"an escape":             file(`{"name": "a", "value": "v\u001b", "hosts": ["a.example:443"]}`),
		"an odd end":            file(`{"name": "a", "value": "v", "hosts": ["a.example:443"], "expires": 5}`),
		"no hosts":              file(`{"name": "a", "value": "v", "hosts": []}`),
		"any host":              file(`{"name": "a", "value": "v", "hosts": ["*:443"]}`),
		"no name":               file(`{"name": "", "value": "v", "hosts": ["a.example:443"]}`),
	} {
		e, err := open(text)
		wants(t, err, runtime.CodeInvalidInput, "")
		if e != nil {
			t.Errorf("%s was opened", name)
		}
	}
}

// A value that an earlier kimbap stored with blanks around it comes back out of a backup as it was.
func TestAnImportTakesWhatWasStoredWithBlanks(t *testing.T) {
	r, other := newRig(t), newRig(t)
	r.set(t, tenant, "n", "key")
	if err := r.Replace(t.Context(), tenant, "n", runtime.NewSecret("key"), runtime.NewSecret(" key ")); err != nil {
		t.Fatal(err)
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
	if got := other.value(t, tenant, "n"); got != " key " {
		t.Errorf("it came back as %q", got)
	}
}
