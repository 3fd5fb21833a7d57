package scrub

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const secret = "s3cr3t/Value+with \"odd\" bytes\u00e9"

// A form that begins with a shorter one is overwritten whole, wherever it is cut:
// a stored user name may be the beginning of the key.
func TestLongerFormsAreOverwrittenWhole(t *testing.T) {
	m := New("account-4711-main-key", "", "account-4711")
	for cut := range len("account-4711-main-key") + 1 {
		text := []byte("xaccount-4711-main-keyx")
		_, held := m.MaskPart(text[:cut])
		_, _ = m.MaskPart(text[cut-held:])
		if string(text) != "x*********************x" {
			t.Errorf("cut after %d: %s", cut, text)
		}
	}
}

// Every form is found wherever it stands, whole or cut anywhere.
func TestFormsAreFound(t *testing.T) {
	m := New(secret, base64.StdEncoding.EncodeToString([]byte("me:"+secret)), "")
	quoted, _ := json.Marshal(secret)
	for name, form := range map[string]string{
		"literal": secret, "hex": hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "percent lower": strings.ToLower(url.QueryEscape("\u00e9")) + url.QueryEscape(secret),
		"json": string(quoted), "base64 0": base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 1": base64.StdEncoding.EncodeToString([]byte("x" + secret + "yy")), "base64 2": base64.URLEncoding.EncodeToString([]byte("xx" + secret + "y")),
		"basic": base64.StdEncoding.EncodeToString([]byte("me:" + secret)), "every": every(secret, "%", lowerHex), "unicode": every(secret, `\u00`, lowerHex),
		"EVERY": every(secret, "%", upperHex), "UNICODE": every(secret, `\u00`, upperHex),
	} {
		for _, around := range []string{"", "s", "s3cr3t/Value", strings.Repeat("ab", 40)} {
			text := []byte(around + form + around)
			if at, _ := m.Next(text, 0); at < 0 {
				t.Errorf("%s after %q was not found", name, around)
			}
		}
	}
	if New("abc", "", "") != nil {
		t.Error("three bytes are looked for")
	}
}

// Encoders differ in what they escape, and each one's spelling is found: an upstream
// writes as its language does.
func TestEachLanguagesEscapesAreFound(t *testing.T) {
	for secret, spellings := range map[string][]string{
		"q3Ea/Zx+9dk1==": {
			`q3Ea%2FZx%2B9dk1%3D%3D`, `q3Ea%2fZx%2b9dk1%3d%3d`, `q3Ea/Zx%2B9dk1%3D%3D`, // most; ASP.NET; Python
			`q3Ea\/Zx+9dk1==`, `q3Ea/Zx\u002B9dk1==`, `q3Ea/Zx+9dk1\u003d\u003d`, // PHP; .NET; Gson
		},
		"abc8Q~kXp-2.Lw*9":  {`abc8Q~kXp-2.Lw%2A9`, `abc8Q%7EkXp-2.Lw*9`, `abc8Q%7EkXp-2.Lw%2A9`}, // most; browsers and Java; PHP
		"we!rd(key) /1":     {`we!rd(key)%20%2F1`, `we%21rd%28key%29+%2F1`, `we%21rd%28key%29%20/1`, `we!rd(key)+%2F1`, `we!rd(key)%20/1`},
		"p\u00e4sswort/1":   {"p\u00e4sswort\\/1", `p\u00e4sswort/1`, `p\u00e4sswort\/1`, `p\u00E4sswort/1`}, // JavaScript; Python; PHP; .NET
		"\U0001f511-4711\n": {`\ud83d\udd11-4711\n`, "\U0001f511-4711\\n"},
		`k"ey<one>&'two'`:   {`k\"ey<one>&'two'`, `k\"ey\u003cone\u003e\u0026'two'`, `k\u0022ey\u003Cone\u003E\u0026\u0027two\u0027`},
	} {
		m := New(secret, "", "")
		for _, spelling := range spellings {
			if text := []byte("=" + spelling + "&"); m.Mask(text) != 1 || strings.Trim(string(text), "=&*") != "" {
				t.Errorf("of %q, in the answer as %s, there is left %s", secret, spelling, text)
			}
		}
	}
	mixed := "p\u00e4ss<w>&/1"
	for _, spelling := range []string{`p\u00e4ss\u003Cw\u003E\u0026\/1`, `p\u00e4ss\u003Cw\u003E\u0026/1`, "p\u00e4ss\\u003Cw\\u003E\\u0026/1"} { // PHP, Symfony
		if text := []byte(spelling); New(mixed, "", "").Mask(text) != 1 {
			t.Errorf("of %q, in the answer as %s, there is left %s", mixed, spelling, text)
		}
	}
	const packed = "~~>>???~>-key" // fn4+Pj8/P34+LWtleQ==
	for _, spelling := range []string{`fn4+Pj8\/P34+LWtleQ==`, `fn4%2BPj8%2FP34%2BLWtleQ%3D%3D`, `fn4%2bPj8%2fP34%2bLWtleQ%3d%3d`, `fn4\u002BPj8/P34\u002BLWtleQ==`} {
		if text := []byte(spelling); New(packed, "", "").Mask(text) != 1 {
			t.Errorf("of %q, in the answer as %s, there is left %s", packed, spelling, text)
		}
	}
	basic := base64.StdEncoding.EncodeToString([]byte("me:~~>>???~>")) // bWU6fn4+Pj8/P34+
	m := New("~~>>???~>", basic, "")
	for _, spelling := range []string{`bWU6fn4\u002BPj8/P34\u002B`, `bWU6fn4+Pj8\/P34+`, `bWU6fn4%2bPj8%2fP34%2b`, `bWU6fn4%2BPj8/P34%2B`} {
		if text := []byte(spelling); m.Mask(text) != 1 || strings.Trim(string(text), "*") != "" {
			t.Errorf("of %q, in the answer as %s, there is left %s", basic, spelling, text)
		}
	}
}

func TestTail(t *testing.T) {
	m := New("abcabd-and-more", "", "")
	for text, want := range map[string]int{"": 0, "xyz": 0, "xab": 2, "abcab": 5, "abcabc": 3, "event\n\n": 0, "zabcabd-and-mor": 14} {
		if got := m.Tail([]byte(text)); got != want {
			t.Errorf("tail(%q) = %d, want %d", text, got, want)
		}
	}
}

// Whatever repeats in secret and text, the search skips no match: few letters make
// blocks that stand everywhere.
func TestTheSearchAgreesWithAPlainOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SampledFrom([]string{"ab", "012a", "0123456789abcdef", "a\\\"%4"}).Draw(t, "letters")
		word := rapid.StringOfN(rapid.RuneFrom([]rune(letters)), 4, 24, -1)
		secret := word.Draw(t, "secret")
		m := New(secret, "", "")
		parts := rapid.SliceOfN(rapid.OneOf(word, rapid.Just(secret), rapid.Just(hex.EncodeToString([]byte(secret)))), 0, 8).Draw(t, "text")
		text := []byte(strings.Join(parts, ""))
		first := -1
		for _, p := range m.patterns {
			if at := bytes.Index(text, p); at >= 0 && (first < 0 || at < first) {
				first = at
			}
		}
		if at, _ := m.Next(text, 0); at != first {
			t.Fatalf("%q in %q: found at %d, is at %d", secret, text, at, first)
		}
	})
}

// A long text is looked through in four lanes: nothing that stands in one of them, at
// the borders between them or across is missed, and an honest text is told to be one.
func TestTheLanesAgreeWithAPlainSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SampledFrom([]string{"ab", "012a", "0123456789abcdef", "a\\\"%4"}).Draw(t, "letters")
		secret := rapid.StringOfN(rapid.RuneFrom([]rune(letters)), 4, 700, -1).Draw(t, "secret")
		m := New(secret, "", "")
		size := rapid.IntRange(0, 8<<10).Draw(t, "size")
		text := bytes.Repeat([]byte(rapid.StringOfN(rapid.RuneFrom([]rune(letters+"xyz")), 1, 300, -1).Draw(t, "around")), size+1)[:size]
		if form := rapid.SampledFrom(m.patterns).Draw(t, "form"); rapid.Bool().Draw(t, "planted") && len(form) <= size {
			lane := rapid.IntRange(0, 4).Draw(t, "lane") * size / 4
			at := lane + rapid.IntRange(-len(form)-2, len(form)+2).Draw(t, "off")
			copy(text[max(0, min(at, size-len(form))):], form)
		}
		is := func(p []byte) bool { return bytes.Contains(text, p) }
		there := slices.ContainsFunc(m.patterns, is)
		long := size >= lanesWorth && size/4 >= m.min
		if m.absent(text) != (long && !there) {
			t.Fatalf("absent is %v in %d bytes; a plain search says there: %v", !there, size, there)
		}
	})
}

// FuzzMatcher compares with the plain search, in pieces as they may come.
func FuzzMatcher(f *testing.F) {
	f.Add("a-secret-value", "xxa-secret-valuexx", uint8(3))
	f.Add("aaaaaaaa", "aaaaaaaaaaaaaaaaaaaab", uint8(1))
	f.Add("sk_0123456789", "0123456789abcdef0123456789sk_0123456789", uint8(40))
	f.Add("ab/+%41cd", "YWIvKyU0MWNk%2F", uint8(7))
	f.Fuzz(func(t *testing.T, secret, text string, step uint8) {
		m := New(secret, "", "")
		if m == nil {
			return
		}
		found := false
		for _, p := range m.patterns {
			found = found || strings.Contains(text, string(p))
		}
		if at, n := m.Next([]byte(text), 0); (at >= 0) != found || at >= 0 && at+n > len(text) {
			t.Fatalf("Next = %d, %d; a plain search says %v", at, n, found)
		}
		var out, held []byte
		for rest := []byte(text); len(rest) > 0; {
			n := min(len(rest), int(step)+1)
			held = append(held, rest[:n]...)
			rest = rest[n:]
			_, keep := m.MaskPart(held)
			out = append(out, held[:len(held)-keep]...)
			held = append([]byte(nil), held[len(held)-keep:]...)
		}
		out = append(out, held...)
		if len(out) != len(text) || strings.Trim(secret, "*") != "" && bytes.Contains(out, []byte(secret)) && !strings.Contains(secret, "*") {
			t.Fatalf("in steps of %d: %q became %q", step+1, text, out)
		}
	})
}

func BenchmarkMask(b *testing.B) {
	text := bytes.Repeat([]byte(`{"id": 12345, "name": "an ordinary answer", "url": "https://api.example.com/x"}, `), 400)
	for name, key := range map[string]string{"long": "ghp_0123456789abcdefghijABCDEFGHIJ012345", "short": "bench-secret"} {
		m := New(key, "", "")
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				m.Mask(text)
				m.Tail(text)
			}
		})
	}
}

// An agent may have an upstream say a stored user name over and over.
func BenchmarkMaskOfMany(b *testing.B) {
	m := New(strings.Repeat("k3y-", 400), "", "account-4711")
	text := bytes.Repeat([]byte("account-4711 "), 20_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		m.MaskPart(bytes.Clone(text))
	}
}

func BenchmarkNewMatcher(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		New("ghp_0123456789abcdefghijABCDEFGHIJ012345", "", "")
	}
}

// A user name that is stored is a stored credential; a short or literal one is
// in honest answers.
func TestStoredUserNamesAreFound(t *testing.T) {
	text := []byte("user account-4711-main has the key s3cr3t-value-42, hex 6163636f756e742d343731312d6d61696e")
	m := New("s3cr3t-value-42", "", "account-4711-main")
	if n := m.Mask(text); n != 3 {
		t.Errorf("%d of 3 found: %s", n, text)
	}
	honest := []byte("user bob")
	if n := New("s3cr3t-value-42", "", "bob").Mask(honest); n != 0 {
		t.Errorf("a short name was overwritten: %s", honest)
	}
}

// A name that has the secret in hex, or with percent escapes, is found as well.
func TestNamesAreSearchedForWhatTheyCanHold(t *testing.T) {
	const secret = "Zx+Q81/w-key=="
	m := New(secret, "", "")
	for _, name := range []string{
		hex.EncodeToString([]byte(secret)), "X-" + strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"x-" + url.QueryEscape(secret), strings.ToLower(url.QueryEscape(secret)) + "-y", url.PathEscape(secret), every(secret, "%", upperHex),
	} {
		if !m.InName(name) {
			t.Errorf("%q was not found", name)
		}
	}
}

// A name is searched for the secret in any case, however long it is and whatever is in it.
func TestNamesAreSearchedInAnyCase(t *testing.T) {
	for _, secret := range []string{"Bench-Secret", "kbcanary-7f3a9c", "gehĘim"} {
		m := New(secret, "", "")
		for name, want := range map[string]bool{
			secret: true, strings.ToUpper(secret): true, "X-" + strings.ToUpper(secret) + "-Y": true, strings.Repeat("X-", 50) + secret: true,
			strings.Repeat("\u212a", 3) + strings.ToLower(secret): true,
			"": false, "X": false, secret[1:]: false, secret[:len(secret)-1] + "-" + secret[len(secret)-1:]: false, "Strict-Transport-Security": false,
		} {
			if m.InName(name) != want {
				t.Errorf("%q in %q: not %t", secret, name, want)
			}
		}
	}
	m := New("Bench-Secret", "", "")
	if n := testing.AllocsPerRun(100, func() { m.InName("Access-Control-Allow-Credentials") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if (*Matcher)(nil).InName("anything") {
		t.Error("nothing to look for was found")
	}
}

// Beside its secret a matcher finds three more values, in as many forms as there are, and all
// of them where each has every form.
func TestOtherValuesAreFoundToo(t *testing.T) {
	t.Parallel()
	value := func(n string) string { return n + "é\"</\\>&' +~=!*()`$;:@#,\x01" + n }
	all := []string{value("first"), value("second"), value("third"), value("fourth"), value("fifth")}
	m := New(all[0], "dXNlcjpwYXNzd29yZA==", all[1], all[2:]...)
	if len(m.lists) > 256 {
		t.Fatalf("%d lists: an index of one byte names no more", len(m.lists))
	}
	for _, one := range all {
		for _, form := range forms(one, "") {
			if at, n := m.Next([]byte("- "+string(form)+" -"), 0); at != 2 || n < len(form) {
				t.Errorf("%q is found at %d, %d long", form, at, n)
			}
		}
	}
	var c Cache
	if one, other := c.Of("secret-1", "", "", "also-long-1"), c.Of("secret-1", "", "", "also-long-2"); one == other || one != c.Of("secret-1", "", "", "also-long-1") {
		t.Error("a matcher is taken for one that looks for something else")
	}
	kept := c.Of("secret-1", "", "")
	if c.Forget(); c.Of("secret-1", "", "") == kept {
		t.Error("a credential that was to be forgotten is kept")
	}
}

// A match is found in each quarter of a long text, also where what stands before it is looked
// through more slowly than the rest.
func TestAMatchInASlowQuarterIsFound(t *testing.T) {
	const secret, quarter = "s3cr3t-value-0123456789", 4 << 10
	m := New(secret, "", "")
	slow := strings.Repeat(secret[:len(secret)-1]+" ", quarter/len(secret)+1)[:quarter]
	for i := range 4 {
		text := []byte(strings.Repeat("z", 4*quarter))
		copy(text[i*quarter:], slow)
		copy(text[(i+1)*quarter-100:], " "+secret+" ")
		if n := m.Mask(text); n != 1 || strings.Contains(string(text), secret) {
			t.Errorf("quarter %d: %d found", i, n)
		}
	}
}
