// Package anchor holds the places outside the home that checkpoints of the audit
// trail are sent to: a file on another disk, a command, a URL.
//
// A place gets one signed line at a time and nothing else; it sees no record. The
// witness decides when, and tries again with a newer checkpoint when one failed.
//
// Start reading at [File].
package anchor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime/audit/sink"
	"github.com/kimbap-run/kimbap/runtime/audit/witness"
)

// File appends checkpoints to a file, best on a disk that this user can add to
// and not change.
type File struct{ Path string }

var _ witness.Anchor = File{}

// Name implements [witness.Anchor].
func (f File) Name() string { return "file:" + f.Path }

// Export implements [witness.Anchor]: it returns when the line is on the disk. The
// file is only ever appended to, so that a disk may forbid everything else.
func (f File) Export(_ context.Context, line []byte) error {
	file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	// A line that a crash cut short is ended: a reader passes over it.
	whole := append(append([]byte(nil), line...), '\n')
	if !endsInNewline(f.Path) {
		whole = append([]byte{'\n'}, whole...)
	}
	_, err = file.Write(whole)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// endsInNewline is true for a file that is empty or cannot be read.
func endsInNewline(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return true
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err != nil || last[0] == '\n'
}

// Command gives each checkpoint to a program on its standard input, with a
// newline; the program says with its exit status 0 that it has it.
type Command struct {
	Words []string // the program and its arguments; no shell
	Env   []string
}

var _ witness.Anchor = Command{}

// Name implements [witness.Anchor]. Arguments may hold secrets and are left out.
func (c Command) Name() string { return "command:" + filepath.Base(c.Words[0]) }

// Export implements [witness.Anchor].
func (c Command) Export(ctx context.Context, line []byte) error {
	cmd := exec.CommandContext(ctx, c.Words[0], c.Words[1:]...)
	cmd.Env = c.Env
	cmd.Stdin = bytes.NewReader(append(append([]byte(nil), line...), '\n'))
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := system.Run(cmd); err != nil {
		text, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		return fmt.Errorf("%w: %.200q", err, text)
	}
	return nil
}

// URL posts each checkpoint as application/json.
type URL struct{ Poster *sink.Poster }

var _ witness.Anchor = URL{}

// Name implements [witness.Anchor].
func (u URL) Name() string { return "url:" + u.Poster.Host() }

// Export implements [witness.Anchor].
func (u URL) Export(ctx context.Context, line []byte) error {
	_, err := u.Poster.Post(ctx, http.Header{"Content-Type": {"application/json"}}, line)
	return err
}
