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
	"time"

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

// lastWords is how long after the end of a command is waited for what it has started.
const lastWords = time.Second

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
	var said beginning
	cmd.Stderr, cmd.WaitDelay = &said, lastWords
	err := system.Run(cmd)
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) { // that one ended well, and a helper of it stays
		text, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
		return fmt.Errorf("%w: %.200q", err, text)
	}
	return nil
}

// beginning keeps the first kilobyte of what is written.
type beginning []byte

// Write implements [io.Writer]. What is over is dropped: an error would end the command.
func (b *beginning) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), 1<<10-len(*b))]...)
	return len(p), nil
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
