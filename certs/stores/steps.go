package stores

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	platform "github.com/kimbap-run/kimbap/internal/system"
)

// javaPassword is Java's usual one for its own store of roots.
const javaPassword = "changeit"

// Step is one command.
type Step struct {
	Argv []string
	// Check, when set, is a command that succeeds as long as the certificate is in
	// the store. Argv is run only when that is as If says; else there is nothing to do.
	Check []string
	If    bool
	// Opens, when set, is a command that succeeds when the store can be looked into. A
	// Check that failed says nothing where this fails too.
	Opens []string
}

// String is the command as a shell would take it.
func (s Step) String() string {
	words := make([]string, len(s.Argv))
	for i, word := range s.Argv {
		words[i] = platform.Quote(word)
	}
	return strings.Join(words, " ")
}

// Install returns the commands that put the certificate of an entry into its store.
func (m *Machine) Install(e Entry) []Step {
	switch {
	case e.Kind == NSS:
		return []Step{{Argv: []string{"certutil", "-A", "-d", "sql:" + e.Where, "-n", e.name(), "-t", "C,,", "-i", e.File}}}
	case e.Kind == Java:
		return []Step{{
			Argv:  m.may(e.Where, m.keytool(), "-importcert", "-noprompt", "-alias", e.name(), "-file", e.File, "-keystore", e.Where, "-storepass", javaPassword),
			Check: m.inKeyStore(e), If: false,
		}}
	case m.OS == "darwin":
		return []Step{{Argv: []string{"security", "add-trusted-cert", "-r", "trustRoot", "-p", "ssl", "-k", e.Where, e.File}}}
	case m.OS == "windows":
		return []Step{{Argv: []string{"certutil", "-user", "-addstore", e.Where, e.File}}}
	}
	s := m.linux(e.Where)
	return []Step{
		{Argv: m.root("install", "-m", "0644", e.File, e.anchor())},
		{Argv: m.root(s.update...)},
	}
}

// Uninstall returns the commands that take it out again. Where somebody has done
// so already they do nothing, and there are none for a store that is gone itself.
func (m *Machine) Uninstall(e Entry) []Step {
	switch {
	case e.Kind == NSS && m.Gone(filepath.Join(e.Where, nssFile)), e.Kind == Java && m.Gone(e.Where):
		return nil
	case e.Kind == NSS:
		return []Step{{
			Argv:  []string{"certutil", "-D", "-d", "sql:" + e.Where, "-n", e.name()},
			Check: []string{"certutil", "-L", "-d", "sql:" + e.Where, "-n", e.name()}, If: true,
			Opens: []string{"certutil", "-L", "-d", "sql:" + e.Where},
		}}
	case e.Kind == Java:
		return []Step{{
			Argv:  m.may(e.Where, m.keytoolOr(), "-delete", "-alias", e.name(), "-keystore", e.Where, "-storepass", javaPassword),
			Check: m.inKeyStore(e), If: true,
			Opens: []string{m.keytoolOr(), "-list", "-keystore", e.Where, "-storepass", javaPassword},
		}}
	case m.OS == "darwin":
		return []Step{{
			Argv:  []string{"security", "delete-certificate", "-t", "-Z", strings.ToUpper(e.Fingerprint), e.Where},
			Check: []string{"security", "find-certificate", "-c", e.Subject, e.Where}, If: true,
		}}
	case m.OS == "windows":
		return []Step{{
			Argv:  []string{"certutil", "-user", "-delstore", e.Where, e.Thumbprint},
			Check: []string{"certutil", "-user", "-store", e.Where, e.Thumbprint}, If: true,
		}}
	}
	s := m.linux(e.Where)
	return []Step{
		{Argv: m.root("rm", "-f", e.anchor())},
		{Argv: m.root(s.fresh...)},
	}
}

// inKeyStore succeeds when the certificate is in a Java key store.
func (m *Machine) inKeyStore(e Entry) []string {
	return []string{m.keytoolOr(), "-list", "-alias", e.name(), "-keystore", e.Where, "-storepass", javaPassword}
}

// keytoolOr is keytool, by its name alone where there is none: so the error says
// what is missing.
func (m *Machine) keytoolOr() string { return cmp.Or(m.keytool(), "keytool") }

// linux is the family whose folder it is.
func (m *Machine) linux(folder string) system {
	for _, s := range systems {
		if s.folder == folder {
			return s
		}
	}
	return system{folder: folder, update: []string{"update-ca-certificates"}, fresh: []string{"update-ca-certificates", "--fresh"}}
}

// root is a command as root runs it.
func (m *Machine) root(argv ...string) []string {
	if m.Root {
		return argv
	}
	return append([]string{"sudo"}, argv...)
}

// may is a command as whoever may write the file runs it.
func (m *Machine) may(file string, argv ...string) []string {
	if m.Writable(file) {
		return argv
	}
	return m.root(argv...)
}

// Run runs one step. What the command prints is in the error when it fails.
func (s Step) Run(ctx context.Context, env []string) error {
	if s.Check != nil {
		if there, err := s.there(ctx, env); err != nil || there != s.If {
			return err
		}
	}
	return run(ctx, env, s.Argv)
}

// there reports whether the certificate is in the store. A tool that is missing, or
// does not get at the store, has not seen that it is not.
func (s Step) there(ctx context.Context, env []string) (bool, error) {
	err := run(ctx, env, s.Check)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return false, err
	}
	if err != nil && s.Opens != nil {
		return false, run(ctx, env, s.Opens)
	}
	return err == nil, nil
}

func run(ctx context.Context, env, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := platform.Run(cmd); err != nil {
		return fmt.Errorf("%s: %w\n%s", Step{Argv: argv}, err, strings.TrimSpace(out.String()))
	}
	return nil
}
