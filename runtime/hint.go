package runtime

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
)

// What errors that help are made of: a hint to what was wrong, commands that can be
// pasted, names that may have been meant.

// Invalid makes an [Error] that says what a person can do, of a problem with a file or
// a setting: invalid_input, the problem its message and its cause, fix its hint. An *Error in err's
// chain, and nil, stay as they are.
func Invalid(err error, fix string) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{Code: CodeInvalidInput, Msg: err.Error(), Hint: fix, Err: err}
}

// linkAny is the command for a credential whose keeper does not know which service it is for.
const linkAny = "kimbap link SERVICE"

// OfService names a tenant's service in the command that an error about its credential advises.
func OfService(err error, of Tenant, service string) error {
	e, own := err.(*Error)
	if !own || !strings.Contains(e.Hint, linkAny) {
		return err
	}
	named := *e // which others are told of their service
	named.Hint = strings.ReplaceAll(e.Hint, linkAny, Command(of, "link "+service))
	return &named
}

// Command is a command of kimbap as an advice has it, for a tenant: without its name it would be
// about the default one.
func Command(of Tenant, words string) string {
	if of == "" || of == DefaultTenant {
		return "kimbap " + words
	}
	return "kimbap --tenant " + string(of) + " " + words
}

// Command is [Command] for the tenant of whoever calls.
func (c *Call) Command(words string) string {
	if c.Principal == nil { // nobody calls, as when a key is tried
		return Command(DefaultTenant, words)
	}
	return Command(c.Principal.Tenant, words)
}

// NoCredential is the error of a call that needs a stored credential and has none.
func NoCredential(call *Call) error {
	service := call.Action.Service
	e := &Error{Code: CodeNoCredential, Msg: "no credential is stored for " + service, Hint: call.Command("link " + service)}
	if call.Credential.Expired {
		e.Msg = "the credential of " + service + " has expired"
	}
	return e
}

// Said is the text of an error for people: that a time was over, or a caller went away,
// is said in our words and not in those of Go's context and net/http.
func Said(err error) string {
	text := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		text = strings.ReplaceAll(text, " (Client.Timeout exceeded while awaiting headers)", "")
		text = strings.ReplaceAll(text, context.DeadlineExceeded.Error(), "there was no answer in time")
	}
	if errors.Is(err, context.Canceled) {
		text = strings.ReplaceAll(text, context.Canceled.Error(), "the caller went away")
	}
	return text
}

// Printable makes the beginning of a text from elsewhere fit a message: 64 bytes at most, and
// a question mark for what is not printable ASCII.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), 64)])
}

// Quote makes text safe to paste into a shell of this system, for the commands in hints.
func Quote(text string) string { return system.Quote(text) }

// Span writes a length of time without parts that are zero: "10m", not "10m0s".
func Span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MaxDays is a century, with which nothing that is added to a time of today overflows.
const MaxDays = 36500

// ParseSpan reads a length of time that people write, in flags, files and requests: as Go
// writes one, or a number of whole days, "30d", which stands alone.
func ParseSpan(text string) (time.Duration, error) {
	number, ok := strings.CutSuffix(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	if n, err := strconv.Atoi(number); err == nil && n > 0 && n <= MaxDays && strconv.Itoa(n) == number {
		return time.Duration(n) * 24 * time.Hour, nil
	}
	return 0, fmt.Errorf("%q is not a number of whole days, such as 30d", text)
}

// Count writes "1 file", "2 files".
func Count[N int | int64 | uint64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// maxTyped is the length of the longest word that may be a slip of another one, in bytes: to
// compare takes the product of both lengths, and some words are what an agent has sent.
const maxTyped = 100

// Nearest returns the name closest to what was typed, "" when none is close or it is longer
// than any name.
func Nearest(typed string, names []string) string {
	if len(typed) > maxTyped {
		return ""
	}
	best, distance := "", len(typed)/3+2
	for _, name := range names {
		if d := editDistance(typed, name); d < distance {
			best, distance = name, d
		}
	}
	return best
}

// editDistance counts the single-character edits between two words (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
