package gitpush

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	idA  = "1111111111111111111111111111111111111111"
	idB  = "2222222222222222222222222222222222222222"
	none = "0000000000000000000000000000000000000000"
)

func pkt(lines ...string) string {
	var out strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&out, "%04x%s", len(line)+4, line)
	}
	return out.String()
}

const caps = "\x00 report-status-v2 side-band-64k agent=git/2.43"

func TestEveryRefOfAPushIsReadOrThePushRefused(t *testing.T) {
	one := func(name, old, new, kind string) string {
		return fmt.Sprintf(`{"kind":%q,"name":%q,"new":%q,"old":%q}`, kind, name, new, old)
	}
	for name, c := range map[string]struct{ body, want string }{
		"update":                 {pkt(idA+" "+idB+" refs/heads/main"+caps) + "0000PACK…", one("refs/heads/main", idA, idB, "update")},
		"create":                 {pkt(none+" "+idB+" refs/tags/v1"+caps) + "0000", one("refs/tags/v1", none, idB, "create")},
		"delete":                 {pkt(idA+" "+none+" refs/heads/x"+caps) + "0000", one("refs/heads/x", idA, none, "delete")},
		"two":                    {pkt(idA+" "+none+" refs/heads/x"+caps, idA+" "+idB+" refs/heads/y\n") + "0000", one("refs/heads/x", idA, none, "delete") + "," + one("refs/heads/y", idA, idB, "update")},
		"shallow":                {pkt("shallow "+idA, idA+" "+idB+" refs/heads/main"+caps) + "0000", one("refs/heads/main", idA, idB, "update")},
		"sha256":                 {pkt(strings.Repeat("a", 64)+" "+strings.Repeat("0", 64)+" refs/heads/x"+caps) + "0000", one("refs/heads/x", strings.Repeat("a", 64), strings.Repeat("0", 64), "delete")},
		"none":                   {"0000", ""},
		"hidden by NUL":          {pkt(idA+" "+idB+" refs/heads/x"+caps, idA+" "+idB+" refs/heads/y\x00 refs/heads/main") + "0000", "-"},
		"certificate":            {pkt("push-cert\x00caps\n", "certificate version 0.1\n") + "0000", "-"},
		"options":                {pkt(idA+" "+idB+" refs/heads/x"+caps+" push-options") + "0000" + pkt("merge_request.merge_when_pipeline_succeeds") + "0000PACK", "-"},
		"options behind shallow": {pkt("shallow "+idA+"\x00push-options", idA+" "+idB+" refs/heads/x"+caps+" push-options object-format=sha1\n") + "0000", "-"},
		"options with a value":   {pkt(idA+" "+idB+" refs/heads/x"+"\x00 report-status push-options=1 agent=git/2.45.0\n") + "0000", "-"},
		"options before a NUL":   {pkt(idA+" "+idB+" refs/heads/x"+"\x00 report-status push-options\x00 agent=git/2.45.0\n") + "0000", "-"},
		"upper case ids":         {pkt(strings.ToUpper(strings.Repeat("a", 40))+" "+idB+" refs/heads/x"+caps) + "0000", "-"},
		"two blanks":             {pkt(idA+"  "+idB+" refs/heads/x"+caps) + "0000", "-"},
		"blank in name":          {pkt(idA+" "+idB+" refs/heads/x y"+caps) + "0000", "-"},
		"line in name":           {pkt(idA+" "+idB+" refs/heads/x\nrefs/heads/main"+caps) + "0000", "-"},
		"dots":                   {pkt(idA+" "+idB+" refs/heads/../heads/main"+caps) + "0000", "-"},
		"end of a lock":          {pkt(idA+" "+idB+" refs/heads/main.lock"+caps) + "0000", "-"},
		"slashes":                {pkt(idA+" "+idB+" refs/heads//main"+caps) + "0000", "-"},
		"not UTF-8":              {pkt(idA+" "+idB+" refs/heads/\xff"+caps) + "0000", "-"},
		"delimiter":              {"0001", "-"}, "empty line": {"0004", "-"}, "signed length": {"+00f", "-"}, "not hex": {"00zz", "-"},
		"nothing twice": {pkt(none+" "+none+" refs/heads/x"+caps) + "0000", "-"},
		"cut":           {pkt(idA + " " + idB + " refs/heads/x" + caps)[:60], "-"}, "no end": {pkt(idA + " " + idB + " refs/heads/x" + caps), "-"}, "empty": {"", "-"},
		"endless": {strings.Repeat(pkt(idA+" "+idB+" refs/heads/x"), 10_000) + "0000", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, body := range []io.Reader{strings.NewReader(c.body), iotest.OneByteReader(strings.NewReader(c.body))} {
				read, refs, err := Read(body)
				if err != nil {
					t.Fatal(err)
				}
				rest, _ := io.ReadAll(body)
				if !bytes.Equal(append(read, rest...), []byte(c.body)) {
					t.Error("the body cannot be put together again")
				}
				if len(read) > mostHead+8<<10 {
					t.Errorf("%d bytes were read", len(read))
				}
				got := "-"
				if refs != nil {
					text, _ := json.Marshal(refs)
					got = strings.Trim(string(text), "[]")
				}
				if got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			}
		})
	}
	for _, c := range `~^:?*[\` + "\x7f\t" {
		if refs, _ := Refs([]byte(pkt(idA+" "+idB+" refs/heads/a"+string(c)+"b"+caps) + "0000")); refs != nil {
			t.Errorf("a name with %q is %v", c, refs)
		}
	}
	if _, _, err := Read(iotest.ErrReader(io.ErrUnexpectedEOF)); err != io.ErrUnexpectedEOF {
		t.Errorf("%v", err)
	}
}

func FuzzRefs(f *testing.F) {
	f.Add([]byte(pkt(idA+" "+idB+" refs/heads/main"+caps) + "0000PACK"))
	f.Add([]byte("0000"))
	f.Fuzz(func(t *testing.T, head []byte) {
		refs, complete := Refs(head)
		more, after := Refs(append(bytes.Clone(head), "PACK and more"...))
		if complete && (!after || len(refs) != len(more)) {
			t.Fatal("what follows the head has changed it")
		}
		if refs != nil && !complete {
			t.Fatal("references of half a head")
		}
		read, again, err := Read(iotest.OneByteReader(bytes.NewReader(head)))
		if err != nil || !bytes.HasPrefix(head, read) || (again == nil) != (refs == nil) {
			t.Fatal("read a byte at a time it is another head")
		}
	})
}
