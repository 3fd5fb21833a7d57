package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// maxExport bounds the file of an import, in bytes.
const maxExport = 100 << 20

func newVaultExportCommand(c *cli) *cobra.Command {
	var recipients []string
	var recipientsFile, passphraseFile, out string
	var passphrase bool
	cmd := &cobra.Command{
		Use:   "export [NAME...]",
		Short: "Write credentials to an encrypted file: those named, or all",
		Long: `Write credentials to an encrypted file (age): those named, or all.

It is encrypted for the holders of age keys, or with a passphrase; there is no way
to write it in clear. It goes to stdout, or with --out to a new file.`,
		Example: `  kimbap vault export --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p --out backup.age
  kimbap vault export github.token --passphrase-file words.txt > backup.age`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			box := app.Lockbox{Recipients: recipients}
			if recipientsFile != "" {
				text, err := os.ReadFile(recipientsFile)
				if err != nil {
					return unreadAs("the file of recipients", "check the path", err)
				}
				box.Recipients = append(box.Recipients, strings.Split(strings.TrimSpace(string(text)), "\n")...)
			}
			if err := notThere(out); err != nil { // before a passphrase is typed and worked into a key
				return err
			}
			var err error
			if box.Passphrase, err = c.readPassphrase(cmd.Context(), passphrase, passphraseFile, true); err != nil {
				return err
			}
			return c.with(cmd.Context(), app.Options{Despite: true}, func(ctx context.Context, a *app.App) error {
				_, done := c.working("encrypting")
				data, names, err := a.ExportSecrets(ctx, args, box)
				done()
				if err != nil {
					return err
				}
				if out == "" {
					_, err = c.out.Write(data)
					return err
				}
				if err := writeNew(out, data); err != nil {
					return err
				}
				return c.show(map[string]any{"file": out, "names": names}, func() {
					fmt.Fprintf(c.out, "wrote %s, encrypted, to %s\n", count(len(names), "credential"), out)
					c.tellOpen(out, "credentials in it are encrypted, but a passphrase can be guessed")
				})
			})
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&recipients, "recipient", nil, "age public key of who can open it; repeat for more")
	f.StringVar(&recipientsFile, "recipients-file", "", "file of age public keys, one a line")
	f.BoolVar(&passphrase, "passphrase", false, "ask for a passphrase to encrypt it with")
	f.StringVar(&passphraseFile, "passphrase-file", "", "file with the passphrase to encrypt it with")
	f.StringVar(&out, "out", "", "write it to this new file")
	return cmd
}

// notThere refuses a file to write that is there already; "" is none.
func notThere(path string) error {
	if _, err := os.Lstat(path); path == "" || err != nil {
		return nil
	}
	return usage("give another name", "%s is there already", path)
}

// writeNew writes a file that must not be there, for its owner only.
func writeNew(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return usage("give another name", "%s is there already", path)
	case errors.Is(err, fs.ErrNotExist) && isMissing(filepath.Dir(path)):
		return missing("check the path", "there is no folder %s", filepath.Dir(path))
	case err != nil:
		return unwritten(path, err)
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		_ = os.Remove(path) // a part of it opens nothing, and would be in the way of the next try
	}
	return err
}

// isMissing reports whether nothing is at a path.
func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// tellOpen says of a file that was written for its owner only where others can read it all
// the same: sticks, cards and many shares keep no permissions.
func (c *cli) tellOpen(path, holds string) {
	info, err := os.Stat(path)
	if err != nil {
		return
	}
	if how := system.Exposed(path, info); how != "" {
		c.say("other users can read %s (%s): %s. Keep it where they cannot", printable(path), printable(how), holds)
	}
}

// readPassphrase takes a passphrase from a file of its owner's alone or a prompt, which a new one
// must be given twice; the empty one when neither was asked for.
func (c *cli) readPassphrase(ctx context.Context, ask bool, file string, fresh bool) (runtime.Secret, error) {
	switch {
	case file != "":
		return guarded(file, "passphrase", "can open what it encrypts", "check the path")
	case !ask:
		return runtime.Secret{}, nil
	case !c.inTTY:
		return runtime.Secret{}, usage("--passphrase-file FILE", "there is no terminal to ask for a passphrase")
	}
	ctx, stop := c.bounded(ctx)
	defer stop()
	read := func(what string) (runtime.Secret, error) { return c.readSecret(ctx, "", what) }
	if fresh {
		return askedTwice("passphrase", read)
	}
	return read("passphrase")
}

func newVaultImportCommand(c *cli) *cobra.Command {
	var identity, passphraseFile string
	var passphrase bool
	var o app.ImportOptions
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Store the credentials of an encrypted file",
		Long: `Store the credentials of an encrypted file, which kimbap vault export wrote.

It shows what changes. What is stored already is replaced with --force only, and
so is a command that kimbap would run for a value; without it nothing is stored.`,
		Example: `  kimbap vault import backup.age --identity key.txt --dry-run
  kimbap vault import backup.age --passphrase-file words.txt --force`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := readSmall(args[0])
			if err != nil {
				return err
			}
			box := app.Lockbox{}
			if identity != "" {
				text, err := guardedText(identity, "identity", "can open what was written for it", "check the path")
				if err == nil && len(text) > maxSecret {
					err = usage("give the file that age-keygen wrote", "%s is over 64 KiB", identity)
				}
				if err != nil {
					return err
				}
				box.Identities = string(text)
			}
			if box.Passphrase, err = c.readPassphrase(cmd.Context(), passphrase, passphraseFile, false); err != nil {
				return err
			}
			return c.with(cmd.Context(), app.Options{Create: !o.Dry, Despite: true}, func(ctx context.Context, a *app.App) error {
				_, done := c.working("decrypting")
				changes, err := a.ImportSecrets(ctx, data, box, o)
				done()
				if err != nil {
					c.sayChanges(changes, "would change")
					return err
				}
				return c.show(changes, func() { c.changeTable(changes) })
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&identity, "identity", "", "file with the age secret key that it was encrypted for")
	f.BoolVar(&passphrase, "passphrase", false, "ask for the passphrase that it was encrypted with")
	f.StringVar(&passphraseFile, "passphrase-file", "", "file with the passphrase that it was encrypted with")
	f.BoolVar(&o.Dry, "dry-run", false, "show what would change, and store nothing")
	f.BoolVar(&o.Force, "force", false, "replace what is stored already, and take commands that fetch keys")
	return cmd
}

func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxExport {
		return nil, usage("export fewer credentials at once: kimbap vault export NAME...", "%s has %d bytes, and an import reads %d at most", path, info.Size(), maxExport)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, unread(path, err)
	}
	return data, nil
}

func (c *cli) changeTable(changes []app.Change) {
	var rows [][]string
	for _, one := range changes {
		hosts := few(one.Hosts)
		if len(one.HadHosts) > 0 && few(one.HadHosts) != hosts {
			hosts = few(one.HadHosts) + " → " + hosts
		}
		rows = append(rows, []string{one.Name, one.Change, fmt.Sprint(one.Version), hosts, strings.Join(one.Reference, " ")})
	}
	c.list([]string{"name", "change", "version", "hosts", "command"}, rows, "nothing would change")
}

// sayChanges lists for the person what an import was refused for.
func (c *cli) sayChanges(changes []app.Change, what string) {
	for _, one := range changes {
		c.say("%s %s: %s, for %s %s", what, printable(one.Name), one.Change, few(one.Hosts), printable(strings.Join(one.Reference, " ")))
	}
}
