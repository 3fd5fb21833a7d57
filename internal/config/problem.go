package config

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	File         string // the file, or "environment variable NAME", or "flag NAME"
	Line, Column int    // 1-based; 0 outside a file
	Msg          string
	Fix          string // what to write instead; may be ""
	Excerpt      string // the line itself, secrets masked; "" outside a file
}

// Problems are all that is wrong, in the order of the file. They are an error.
type Problems []Problem

// Error prints every problem with its place, its line, a caret and the fix.
func (p Problems) Error() string {
	all := make([]string, len(p))
	for i := range p {
		all[i] = p[i].String()
	}
	return strings.Join(all, "\n")
}

// String prints the problem as [Problems.Error] does.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, max(p.Column, 1))
	}
	b.WriteString(": " + p.Msg)
	if p.Excerpt != "" {
		number := fmt.Sprint(p.Line)
		fmt.Fprintf(&b, "\n  %s | %s\n  %s | %s^", number, p.Excerpt, strings.Repeat(" ", len(number)), indent(p.Excerpt, p.Column))
	}
	if p.Fix != "" {
		b.WriteString("\n  fix: " + p.Fix)
	}
	return b.String()
}

// rank orders problems: those of the file by line, then those without a line.
func (p Problem) rank() int {
	if p.Line == 0 {
		return math.MaxInt
	}
	return p.Line
}

// indent reaches the column under a line, tabs kept so that the caret lines up.
func indent(line string, column int) string {
	var b strings.Builder
	for i, r := range []rune(line) {
		if i >= column-1 {
			break
		}
		if r != '\t' {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// wrong is a refusal that knows the remedy.
type wrong struct{ msg, fix string }

func (w wrong) Error() string { return w.msg }

// excerpt returns a line of the source as it may be shown.
func excerpt(source []byte, line int) string {
	lines := strings.Split(string(source), "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	text := strings.TrimRight(lines[line-1], "\r")
	if ofSecret(lines[:line]) {
		return text[:indented(text)] + runtime.Redacted
	}
	return maskLine(text)
}

// secretKeys are the keys that hold a secret.
const secretKeys = `\b(?:upstream_proxy|dsn|password|secret|token|key|value)["']?\s*:`

// ofSecret reports whether the last of some lines goes on with the value of a key that holds a
// secret: the key ends the line before, or stands in the one that it is indented below.
func ofSecret(lines []string) bool {
	last := len(lines) - 1
	before := true
	for i := last - 1; i >= 0; i-- {
		text := strings.TrimSpace(lines[i])
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if before && regexp.MustCompile(`(?i)`+secretKeys+`$`).MatchString(text) {
			return true
		}
		before = false
		if indented(lines[i]) < indented(lines[last]) {
			return regexp.MustCompile(`(?i)` + secretKeys).MatchString(text)
		}
	}
	return false
}

// indented is how far a line is.
func indented(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// shortPath is the longest path of a URL, in bytes, that cannot hold a secret.
const shortPath = 8

// maskLine hides what follows a key that holds a secret, and of any URL the userinfo and
// a path that may be one: a line is shown for a mistake beside the secret, too.
func maskLine(line string) string {
	line = regexp.MustCompile(`(?i)(`+secretKeys+`\s*)\S.*`).ReplaceAllString(line, "${1}"+runtime.Redacted)
	line = regexp.MustCompile(`://[^/\s]*@`).ReplaceAllString(line, "://"+runtime.Redacted+"@")
	path := regexp.MustCompile(`(://[^/?\s"',}]+/?)([^\s"',}]+)`)
	return path.ReplaceAllStringFunc(line, func(url string) string {
		m := path.FindStringSubmatch(url)
		if len(m[2]) <= shortPath && !strings.ContainsRune(m[2], '?') {
			return url
		}
		return m[1] + runtime.Redacted
	})
}
