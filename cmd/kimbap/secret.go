package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/runtime"
)

// maxSecret bounds what is read as a secret, in bytes.
const maxSecret = 64 << 10

// readSecret takes a secret from a file, from stdin, or from a prompt that does
// not echo. Never from an argument: those show in the process list.
func (c *cli) readSecret(ctx context.Context, file, what string) (runtime.Secret, error) {
	if c.asks(file) {
		fmt.Fprintf(c.err, "%s: ", what)
		data, err := unseen(ctx, os.Stdin)
		fmt.Fprintln(c.err)
		if err != nil {
			return runtime.Secret{}, err
		}
		return secretFrom(data)
	}
	data, err := c.readAll(ctx, file, what)
	if err != nil {
		return runtime.Secret{}, err
	}
	return secretFrom(data)
}

// asks reports whether what is not in a file is asked for at the terminal.
func (c *cli) asks(file string) bool { return c.inTTY && (file == "" || file == "-") }

// readKey is readSecret of what is to be stored and kept out of answers, without the blanks around
// it. It says so where answers may show some of the value all the same.
func (c *cli) readKey(ctx context.Context, file, what string) (runtime.Secret, error) {
	secret, err := c.readSecret(ctx, file, what)
	if err != nil {
		return runtime.Secret{}, err
	}
	return c.keyOf(secret, c.asks(file))
}

// keyOf is a key without the blanks around it, which a header field would lose on its way.
func (c *cli) keyOf(secret runtime.Secret, typed bool) (runtime.Secret, error) {
	given := len(secret.Reveal())
	secret = runtime.NewSecret(strings.Trim(secret.Reveal(), " \t"))
	if len(secret.Reveal()) != given && !secret.Empty() {
		c.say("the blanks around it were left out")
	}
	if secret.Empty() && typed {
		return secret, usage("type it, then Enter", "nothing was typed, so nothing was stored")
	}
	if shown := app.Unmasked(secret); shown != "" {
		c.say("warning: %s", shown)
	}
	return secret, nil
}

// byteOrderMark is what some editors, and PowerShell, begin a file of UTF-8 with.
const byteOrderMark = "\ufeff"

// mostKey is how much is read of a secret: enough to see that it is too long.
const mostKey = int64(len(byteOrderMark) + maxSecret + 1)

// unmarked is what was read without its byte order mark.
func unmarked(data []byte) []byte { return bytes.TrimPrefix(data, []byte(byteOrderMark)) }

// secretFrom drops a byte order mark and one line end, and refuses what is no single-line
// value.
func secretFrom(data []byte) (runtime.Secret, error) {
	data = unmarked(data)
	if len(data) > maxSecret {
		return runtime.Secret{}, usage("give the key alone", "the secret is over 64 KiB")
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	switch {
	case strings.Contains(text, "\x00"):
		return runtime.Secret{}, usage("save it as UTF-8, or pipe the key in", "the secret is not plain text: it may be in UTF-16")
	case strings.ContainsAny(text, "\r\n"):
		return runtime.Secret{}, usage("give the key alone, on one line", "the secret has more than one line")
	}
	return runtime.NewSecret(text), nil
}
