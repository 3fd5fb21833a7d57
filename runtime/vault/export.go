package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/kimbap-run/kimbap/runtime"
)

const (
	exportVersion = 1
	minPassphrase = 12 // characters
)

// Lockbox is who can open an export: holders of age keys, or who knows a
// passphrase. One of the two.
type Lockbox struct {
	Recipients []string // age1…; to write
	Identities string   // text of an age identity file; to read
	Passphrase runtime.Secret
}

// Export is an opened export. It shows names only.
type Export struct{ secrets []exported }

// exported is one secret in the encrypted file.
type exported struct {
	Name        string     `json:"name"`
	Value       string     `json:"value,omitempty"`
	Bytes       []byte     `json:"value_base64,omitempty"` // a value that is not UTF-8, which JSON has no letters for
	Reference   *Reference `json:"reference,omitempty"`
	Authorities []string   `json:"hosts"`
	Expires     *time.Time `json:"expires,omitempty"`
}

// exportFile is what is encrypted.
type exportFile struct {
	Version int        `json:"kimbap_vault"`
	Secrets []exported `json:"secrets"`
}

// Change is what an import does, or would do, with one secret.
type Change struct {
	Name      string   `json:"name"`
	Change    string   `json:"change"` // new | same | value | hosts | expired
	Version   int      `json:"version"`
	Hosts     []string `json:"hosts"`
	HadHosts  []string `json:"had_hosts,omitempty"`
	Reference []string `json:"command,omitempty"` // that will be run whenever the value is needed
}

// What Change says.
const (
	ChangeNew     = "new"     // nothing of this name is stored
	ChangeSame    = "same"    // nothing to do
	ChangeValue   = "value"   // another value, or another reference, is stored
	ChangeHosts   = "hosts"   // the value is the same, where it may go or until when is not
	ChangeExpired = "expired" // of no use any more, left out
)

// Export encrypts secrets of a tenant, all without names, for whoever can open
// the box. Nothing of it is ever plain, and it is the only way out of a vault.
func (v *Vault) Export(ctx context.Context, of runtime.Tenant, names []string, box Lockbox) (data []byte, what []string, err error) {
	recipients, err := box.recipients()
	if err != nil {
		return nil, nil, err
	}
	rows, err := v.o.Store.Secrets(ctx, of)
	if err != nil {
		return nil, nil, unknowable(err)
	}
	for _, name := range names {
		if !slices.ContainsFunc(rows, func(r Sealed) bool { return r.Name == name }) {
			return nil, nil, notStored(name)
		}
	}
	file := exportFile{Version: exportVersion, Secrets: []exported{}}
	for _, row := range rows {
		if len(names) > 0 && !slices.Contains(names, row.Name) {
			continue
		}
		t, err := v.tenantWith(ctx, of, row.KeyVersion)
		if err != nil {
			return nil, nil, err
		}
		one, err := t.export(row)
		if err != nil {
			return nil, nil, err
		}
		file.Secrets, what = append(file.Secrets, one), append(what, row.Name)
	}
	text, err := json.Marshal(file)
	if err != nil {
		return nil, nil, err
	}
	defer clear(text)
	data, err = encrypt(text, recipients)
	return data, what, err
}

func (t *tenant) export(row Sealed) (exported, error) {
	plain, err := t.open(&row)
	if err != nil {
		return exported{}, err
	}
	defer clear(plain)
	one := exported{Name: row.Name, Authorities: row.Authorities}
	if utf8.Valid(plain) {
		one.Value = string(plain)
	} else {
		one.Bytes = bytes.Clone(plain)
	}
	if !row.Expires.IsZero() {
		one.Expires = &row.Expires
	}
	if row.Reference != "" {
		one.Reference, err = parseReference(&row)
	}
	return one, err
}

func encrypt(text []byte, recipients []age.Recipient) ([]byte, error) {
	var out bytes.Buffer
	lines := armor.NewWriter(&out)
	w, err := age.Encrypt(lines, recipients...)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	_, err = w.Write(text)
	if err := errors.Join(err, w.Close(), lines.Close()); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return out.Bytes(), nil
}

func (b Lockbox) recipients() ([]age.Recipient, error) {
	const fix = "kimbap vault export --recipient age1… (age-keygen makes a key), or --passphrase-file FILE"
	switch {
	case b.Passphrase.Empty() == (len(b.Recipients) == 0):
		return nil, invalid(fix, "an export is encrypted for recipients or with a passphrase, one of the two")
	case !b.Passphrase.Empty():
		if len([]rune(b.Passphrase.Reveal())) < minPassphrase {
			return nil, invalid("use several words", "the passphrase has fewer than %d characters", minPassphrase)
		}
		r, err := age.NewScryptRecipient(b.Passphrase.Reveal())
		if err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
		return []age.Recipient{r}, nil
	}
	recipients, err := age.ParseRecipients(strings.NewReader(strings.Join(b.Recipients, "\n")))
	if err != nil {
		return nil, invalid(fix, "a recipient is not the public key of age")
	}
	return recipients, nil
}

func (b Lockbox) identities() ([]age.Identity, error) {
	const fix = "kimbap vault import FILE --identity key.txt, or --passphrase-file FILE"
	switch {
	case b.Passphrase.Empty() == (b.Identities == ""):
		return nil, invalid(fix, "an export is opened with an identity or a passphrase, one of the two")
	case !b.Passphrase.Empty():
		i, err := age.NewScryptIdentity(b.Passphrase.Reveal())
		if err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
		return []age.Identity{i}, nil
	}
	identities, err := age.ParseIdentities(strings.NewReader(b.Identities))
	if err != nil { // its error may quote the line
		return nil, invalid(fix, "the identity file holds no secret key of age")
	}
	return identities, nil
}

// OpenExport decrypts what [Vault.Export] wrote and checks all of it.
func (v *Vault) OpenExport(data []byte, box Lockbox) (*Export, error) {
	identities, err := box.identities()
	if err != nil {
		return nil, err
	}
	bad := func(format string, a ...any) error {
		return invalid("give a file that kimbap vault export wrote, and the key that it was written for", format, a...)
	}
	var in io.Reader = bytes.NewReader(data)
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte(armor.Header)) {
		in = armor.NewReader(in)
	}
	plain, err := age.Decrypt(in, identities...)
	if err != nil {
		return nil, bad("the export cannot be opened with this key")
	}
	room := bytes.NewBuffer(make([]byte, 0, len(data)+bytes.MinRead)) // age makes nothing shorter: no piece is copied elsewhere
	_, err = room.ReadFrom(plain)
	text := room.Bytes()
	defer clear(text)
	if err != nil {
		return nil, bad("the export is damaged")
	}
	var file exportFile
	if json.Unmarshal(text, &file) != nil || file.Version != exportVersion { // its error may quote a value
		return nil, bad("the file is no export of this version")
	}
	seen := map[string]bool{}
	for i := range file.Secrets {
		one := &file.Secrets[i]
		if one.Value == "" {
			one.Value = string(one.Bytes)
		}
		if err := one.check(seen[one.Name]); err != nil {
			return nil, err
		}
		seen[one.Name] = true
	}
	return &Export{file.Secrets}, nil
}

func (e exported) check(twice bool) error {
	if twice || (e.Reference == nil) == (e.Value == "") {
		return invalid("export again", "the export is not consistent about %.140q", e.Name)
	}
	if e.Reference != nil {
		if wrong := e.Reference.check(); wrong != "" {
			return invalid("export again", "the reference of %.140q %s", e.Name, wrong)
		}
	} else if err := refuseValue(e.Name, runtime.NewSecret(e.Value)); err != nil {
		return err
	}
	return refuse(e.Name, e.Authorities, time.Time{}, time.Time{})
}

// ImportOptions say how far an import goes.
type ImportOptions struct {
	Dry   bool // store nothing
	Force bool // replace what is stored, and take commands that kimbap would run
}

// Import stores what an export holds, together, and returns what that changes. Where something
// needs Force and it is not given, nothing is stored; see [RefuseChanges].
func (v *Vault) Import(ctx context.Context, of runtime.Tenant, e *Export, o ImportOptions) ([]Change, error) {
	defer v.Forget()
	for range attempts {
		changes, rows, err := v.plan(ctx, of, e)
		if err != nil || o.Dry {
			return changes, err
		}
		if !o.Force {
			if err := RefuseChanges(changes); err != nil {
				return changes, err
			}
		}
		if len(rows) == 0 {
			return changes, nil
		}
		if err = v.o.Store.PutSecrets(ctx, rows...); err == nil {
			return changes, nil
		}
		if !errors.Is(err, ErrConflict) {
			return nil, unknowable(err)
		}
		v.Forget()
	}
	return nil, contended(fmt.Sprintf("secrets of tenant %q", of))
}

// RefuseChanges is the error of changes that must be forced, nil when there are none.
func RefuseChanges(changes []Change) error {
	for _, c := range changes {
		switch {
		case c.Change == ChangeValue || c.Change == ChangeHosts:
			return invalid("look at it with --dry-run; then, to replace it: --force", "%q is stored already and the export has another; nothing was imported", c.Name)
		case c.Change == ChangeNew && c.Reference != nil:
			return invalid("look at it with --dry-run; then, to take it: --force", "%q brings a command that kimbap would run; nothing was imported", c.Name)
		}
	}
	return nil
}

// plan compares an export with what is stored, and seals what is to be stored.
func (v *Vault) plan(ctx context.Context, of runtime.Tenant, e *Export) (changes []Change, rows []Sealed, err error) {
	changes = []Change{}
	for _, one := range e.secrets {
		stored, found, err := v.o.Store.Secret(ctx, of, one.Name)
		if err != nil {
			return nil, nil, unknowable(err)
		}
		t, err := v.tenantWith(ctx, of, stored.KeyVersion)
		if err != nil {
			return nil, nil, err
		}
		row := Sealed{Tenant: of, Name: one.Name, Authorities: one.Authorities}
		if row.Version, err = versionBehind(&stored, of, one.Name); err != nil {
			return nil, nil, err
		}
		if one.Expires != nil {
			row.Expires = *one.Expires
		}
		c := Change{Name: one.Name, Version: row.Version, Hosts: one.Authorities, Change: ChangeNew, HadHosts: stored.Authorities}
		if one.Reference != nil {
			row.Reference, c.Reference = one.Reference.encode(), one.Reference.Command
		} else {
			v.opens(runtime.NewSecret(one.Value))
		}
		if err := v.seal(t, &row, []byte(one.Value)); err != nil {
			return nil, nil, err
		}
		switch {
		case !row.Expires.IsZero() && !v.o.Clock().Before(row.Expires):
			c.Change = ChangeExpired
		case found:
			if c.Change, err = t.compare(stored, row, one.Value); err != nil {
				return nil, nil, err
			}
		}
		if c.Change != ChangeSame && c.Change != ChangeExpired {
			rows = append(rows, row)
		} else {
			c.Version = stored.Version
		}
		changes = append(changes, c)
	}
	return changes, rows, nil
}

// compare says how a row differs from the one that is stored.
func (t *tenant) compare(stored, row Sealed, value string) (string, error) {
	plain, err := t.open(&stored)
	if err != nil {
		return "", err
	}
	defer clear(plain)
	switch {
	case stored.Reference != row.Reference || !runtime.NewSecret(value).Equal(runtime.NewSecret(string(plain))):
		return ChangeValue, nil
	case !slices.Equal(stored.Authorities, row.Authorities) || !stored.Expires.Equal(row.Expires):
		return ChangeHosts, nil
	}
	return ChangeSame, nil
}
