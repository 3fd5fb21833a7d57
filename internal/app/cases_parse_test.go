package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The security cases. Each file testdata/cases/*.txt is one area: its first
// line is the title, then come the cases, each an id and a sentence, and indented
// below it who holds it:
//
//	held TestName TestOther   tests elsewhere
//	none because …            nothing does, and why
//	open                      its tests are not listed here yet
//	note …                    how kimbap differs from what might be expected
//
// or what is sent to a whole kimbap, and what must come of it:
//
//	listener                  what follows is written to the proxy itself,
//	tunnel HOST:PORT [name]   or into TLS in a CONNECT (the default is api.good.test:443; name is the server name of TLS),
//	clear HOST:PORT           or into a CONNECT without TLS
//	field Name: value         one more field of the next request
//	get TARGET                a GET to the tunnel's host
//	json TARGET BODY          a POST of this body as JSON, form … the same as a form
//	send TEXT                 or a text, with the escapes of Go
//	refused STATUS CODE[/REASON]   this answer, one record that says the same, and not one byte for the upstream
//	stopped STATUS CODE[/REASON]   the same, but the records are an intent and its outcome: it was found out on the way
//	ends                      no answer at all; not one byte for the upstream
//	waits ACTION              a person must decide; not one byte for the upstream
//	allowed ACTION            200; the upstream got this one request, with the stored credential
//	passed ACTION             200; the upstream got this one request, without it
//	lacks Name                and no field of this name in it
//	has Name: value           and exactly this one
//	target TARGET             and this request-target
//	raw TEXT                  and this body as it was on the wire, chunks and trailers included
//	closes                    (after refused) the connection is closed, and what was sent behind is not read
//
// The words listener, tunnel and clear hold until the case ends.
type securityCase struct {
	id, about  string
	held       []string
	none, note string
	open       bool
	tries      []try
}

// try is one thing sent and what must come of it.
type try struct {
	place, host, name string
	text              string
	want              []string // words of the expectation, then of each further check
	checks            [][2]string
	line              int
}

// area is one file.
type area struct {
	file, title string
	cases       []securityCase
}

func securityAreas(t testing.TB) []area {
	t.Helper()
	files, err := filepath.Glob("testdata/cases/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no security cases: ", err)
	}
	var out []area
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, parseArea(t, file, string(text)))
	}
	return out
}

func parseArea(t testing.TB, file, text string) area {
	t.Helper()
	out := area{file: strings.TrimSuffix(filepath.Base(file), ".txt")}
	p := tryParser{}
	for n, line := range strings.Split(text, "\n") {
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case out.title == "":
			out.title = line
		case line[0] != '\t':
			id, about, _ := strings.Cut(line, " ")
			out.cases = append(out.cases, securityCase{id: id, about: about})
			p = tryParser{place: "tunnel", host: "api.good.test:443"}
		case len(out.cases) == 0:
			t.Fatalf("%s:%d: a line of no case", file, n+1)
		default:
			if err := p.line(&out.cases[len(out.cases)-1], line[1:], n+1); err != nil {
				t.Fatalf("%s:%d: %v", file, n+1, err)
			}
		}
	}
	return out
}

// tryParser is what holds from one line of a case to the next.
type tryParser struct {
	place, host, name string
	fields            string
}

func (p *tryParser) line(c *securityCase, text string, n int) error {
	word, rest, _ := strings.Cut(text, " ")
	host, _, _ := strings.Cut(p.host, ":")
	add := func(raw string) {
		c.tries = append(c.tries, try{place: p.place, host: p.host, name: p.name, text: raw, line: n})
		p.fields = ""
	}
	body := func(media string) error {
		target, content, _ := strings.Cut(rest, " ")
		content, err := unescape(content)
		add(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", target, host, p.fields, media, len(content), content))
		return err
	}
	switch word {
	case "held":
		c.held = append(c.held, strings.Fields(rest)...)
	case "none":
		c.none = rest
	case "open":
		c.open = true
	case "note":
		c.note = rest
	case "listener", "tunnel", "clear":
		p.place, p.name = word, ""
		p.host, p.name, _ = strings.Cut(rest, " ")
	case "field":
		p.fields += rest + "\r\n"
	case "get":
		add("GET " + rest + " HTTP/1.1\r\nHost: " + host + "\r\n" + p.fields + "\r\n")
	case "json", "form":
		media := map[string]string{"json": "application/json", "form": "application/x-www-form-urlencoded"}[word]
		return body(media)
	case "send":
		raw, err := unescape(rest)
		add(raw)
		return err
	case "refused", "stopped", "ends", "waits", "allowed", "passed":
		if len(c.tries) == 0 || c.tries[len(c.tries)-1].want != nil {
			return fmt.Errorf("%s without a request", word)
		}
		c.tries[len(c.tries)-1].want = append([]string{word}, strings.Fields(rest)...)
	case "lacks", "has", "target", "raw", "closes":
		value, err := rest, error(nil)
		if word == "raw" {
			value, err = unescape(rest)
		}
		last := &c.tries[len(c.tries)-1]
		last.checks = append(last.checks, [2]string{word, value})
		return err
	default:
		return fmt.Errorf("%q is no word of a case", word)
	}
	return nil
}

// unescape reads the escapes of Go, and $N*TEXT$ as TEXT N times.
func unescape(text string) (string, error) {
	var out strings.Builder
	for text != "" {
		if count, after, ok := strings.Cut(text, "*"); ok && strings.HasPrefix(count, "$") {
			if n, err := strconv.Atoi(count[1:]); err == nil {
				piece, rest, _ := strings.Cut(after, "$")
				piece, err := unescape(piece)
				if err != nil {
					return "", err
				}
				out.WriteString(strings.Repeat(piece, n))
				text = rest
				continue
			}
		}
		c, multi, rest, err := strconv.UnquoteChar(text, 0)
		if err != nil {
			return "", fmt.Errorf("%w in %q", err, text)
		}
		if multi {
			out.WriteRune(c)
		} else {
			out.WriteByte(byte(c))
		}
		text = rest
	}
	return out.String(), nil
}
