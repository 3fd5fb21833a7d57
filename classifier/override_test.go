package classifier

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestFormsThatAskForAnotherMethod(t *testing.T) {
	blanks, brackets := strings.Repeat("%20", longestPair), strings.Repeat("%5B%5d", longestPair)
	for form, refused := range map[string]bool{
		"_method=DELETE": true, "a=1&_method=DELETE&b=2": true, "a;_Method=PUT": true, ".method%00=DELETE": true, "$httpMethod=DELETE": true,
		"_HttpMethod=PATCH": true, "x.http.method=DELETE": false, "x-http-method-override=DELETE": true, "++_method[0]=DELETE": true, "_method=POSTED": true,
		"_method": true, blanks + "_method=DELETE": true, strings.Repeat(" ", 9000) + "_method=DELETE": true, "_method[" + strings.Repeat("x", 9000) + "]=DELETE": true,
		"[_method]=DELETE": true, "a=1&_method]=DELETE": true, "%5B_Method=DELETE": true, "]][_method]]x=DELETE": true, "\xef\xbb\xbf_method=DELETE": true, "?_method=DELETE": true,
		"._method=DELETE": true, brackets + "_method=DELETE": true, strings.Repeat("[", 9000) + "_method=DELETE": true, "[a]_method=DELETE": false, "a[_method]=DELETE": false,
		"": false, "_method=POST": false, "_method=POST&a=1": false, "method=DELETE": false, "__method=DELETE": false, "_methods=DELETE": false, "a=_method=DELETE": false,
		strings.Repeat("x", 9000): false, strings.Repeat(" ", 9000) + "x": false, "\x1f\x8b\x00%zz": false, `{"_method":"DELETE"}`: false,
	} {
		if err := checkForm([]byte(form)); (err != nil) != refused {
			t.Errorf("%.40q: %v", form, err)
		}
		if strings.HasSuffix(form, "_method") { // may go on
			continue
		}
		for size := range min(len(form), 9) {
			var f formCheck
			var err error
			for rest := form; err == nil && rest != ""; {
				n := min(size+1, len(rest))
				err, rest = f.look([]byte(rest[:n])), rest[n:]
			}
			if (err != nil) != refused {
				t.Errorf("%.40q in pieces of %d: %v", form, size+1, err)
			}
		}
	}
}

func TestKeysThatAReaderTakesForAName(t *testing.T) {
	for _, c := range []struct {
		key, name string
		want      bool
	}{
		{"sent.by", "sent_by", true}, {"sent by", "sent_by", true}, {"sent[by", "sent_by", true}, {" sent.by[0]", "sent_by", true}, {"Sent.By", "sent_by", true},
		{"sent.by\x00.x", "sent_by", true}, {"a.b_c d", "a_b_c_d", true}, {"a_b.c", "a_b_c", true}, {"a.b", "a_b_c", false}, {"a.b.c", "a_b", false},
		{"sentby", "sent_by", false}, {"sent-by", "sent_by", false}, {".", "_", true}, {"..", "__", true}, {"", "_", false}, {"sent[by]", "sent_by", false},
		{"[name]", "name", true}, {"[name", "name", true}, {"name]", "name", true}, {"][name]x", "name", true}, {"[ Name ]", "name", true}, {"?name", "name", true},
		{".name", "name", true}, {"\ufeffname", "name", true}, {"[x]name", "name", false}, {"x[name]", "name", false}, {"[[]]", "name", false}, {"", "[", false},
		{"Name", "name", true}, {"name[x]", "name", true}, {"xname", "name", false}, {"1", "1", true}, {"\u212aey", "key", true}, {"", "", true}, {"a", "", false},
	} {
		if got := SameParameter(c.key, c.name); got != c.want {
			t.Errorf("%q for %q: %v", c.key, c.name, got)
		}
	}
}

// What a hostile body costs grows with its size and no faster.
func TestHostileBodiesCostLittle(t *testing.T) {
	const fragments = 25000
	var document strings.Builder
	document.WriteString("mutation{")
	for i := range fragments {
		fmt.Fprintf(&document, "...f%x ", i)
	}
	document.WriteString("}")
	for i := range fragments {
		fmt.Fprintf(&document, "fragment f%x on M{...f0}", i)
	}
	for name, run := range map[string]func(){
		"fragments": func() { r := graphqlRequest{document: document.String()}; r.call() },
		"keys":      func() { _ = checkForm([]byte(strings.Repeat("_.&", 1<<20/3))) },
	} {
		begun := time.Now()
		run()
		if took := time.Since(begun); took > 5*time.Second { // with a square in it: a minute
			t.Errorf("%s: %v", name, took)
		}
	}
}

// checkForm is a form that comes in one piece.
func checkForm(raw []byte) error {
	var f formCheck
	if err := f.look(raw); err != nil {
		return err
	}
	return f.look([]byte("&"))
}
