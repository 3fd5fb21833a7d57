package classifier

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// packed is a text in gzip, with a header of its own.
func packed(t *testing.T, text string, header gzip.Header) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Header = header
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A document in gzip is what is in it. Whatever two readers could unpack to different texts,
// or read without unpacking it, is refused.
func TestUnpack(t *testing.T) {
	const doc, limit = `{"draft":false}`, 100
	plain := packed(t, doc, gzip.Header{})
	damaged := []byte(plain)
	damaged[len(damaged)-5]++ // of the checksum
	for name, c := range map[string]struct {
		types, codings []string
		body, want     string
		reason         string
	}{
		"not packed":            {[]string{"text/plain"}, nil, doc, doc, ""},
		"said to be itself":     {[]string{"text/plain"}, []string{"Identity"}, doc, doc, ""},
		"an empty coding":       {[]string{"text/plain"}, []string{""}, doc, doc, ""},
		"JSON":                  {[]string{"application/json; charset=UTF-8"}, []string{"gzip"}, plain, doc, ""},
		"JSON of a kind":        {[]string{"application/vnd.x+json"}, []string{" X-GZip "}, plain, doc, ""},
		"nothing":               {[]string{"application/json"}, []string{"gzip"}, packed(t, "", gzip.Header{}), "", ""},
		"as long as may be":     {[]string{"application/json"}, []string{"gzip"}, packed(t, strings.Repeat(" ", limit), gzip.Header{}), strings.Repeat(" ", limit), ""},
		"longer":                {[]string{"application/json"}, []string{"gzip"}, packed(t, strings.Repeat(" ", limit+1), gzip.Header{}), "", reasonBodyTooLarge},
		"in another charset":    {[]string{"application/json; charset=utf-16"}, []string{"gzip"}, plain, "", reasonUnsupportedMedia},
		"a form":                {[]string{"application/x-www-form-urlencoded"}, []string{"gzip"}, plain, "", reasonUnsupportedMedia},
		"parts":                 {[]string{"multipart/form-data; boundary=b"}, []string{"gzip"}, plain, "", reasonUnsupportedMedia},
		"of no type":            {nil, []string{"gzip"}, plain, "", reasonUnsupportedMedia},
		"of two types":          {[]string{"application/json", "text/plain"}, []string{"gzip"}, plain, "", reasonUnsupportedMedia},
		"another coding":        {[]string{"application/json"}, []string{"br"}, plain, "", reasonUnsupportedMedia},
		"two codings":           {[]string{"application/json"}, []string{"gzip, gzip"}, packed(t, plain, gzip.Header{}), "", reasonUnsupportedMedia},
		"two fields":            {[]string{"application/json"}, []string{"gzip", "gzip"}, plain, "", reasonUnsupportedMedia},
		"itself in another":     {[]string{"application/json"}, []string{"identity", "gzip"}, plain, "", reasonUnsupportedMedia},
		"not packed at all":     {[]string{"application/json"}, []string{"gzip"}, doc, "", reasonUnsupportedMedia},
		"empty":                 {[]string{"application/json"}, []string{"gzip"}, "", "", reasonUnsupportedMedia},
		"with a name":           {[]string{"application/json"}, []string{"gzip"}, packed(t, doc, gzip.Header{Name: "&draft=true&"}), "", reasonUnsupportedMedia},
		"with a comment":        {[]string{"application/json"}, []string{"gzip"}, packed(t, doc, gzip.Header{Comment: "x"}), "", reasonUnsupportedMedia},
		"with more in its head": {[]string{"application/json"}, []string{"gzip"}, packed(t, doc, gzip.Header{Extra: []byte("x")}), "", reasonUnsupportedMedia},
		"with a second member":  {[]string{"application/json"}, []string{"gzip"}, plain + packed(t, `{"draft":true}`, gzip.Header{}), "", reasonUnsupportedMedia},
		"with bytes behind":     {[]string{"application/json"}, []string{"gzip"}, plain + "\x00", "", reasonUnsupportedMedia},
		"cut short":             {[]string{"application/json"}, []string{"gzip"}, plain[:len(plain)-1], "", reasonUnsupportedMedia},
		"damaged":               {[]string{"application/json"}, []string{"gzip"}, string(damaged), "", reasonUnsupportedMedia},
		"with bytes before":     {[]string{"application/json"}, []string{"gzip"}, " " + plain, "", reasonUnsupportedMedia},
	} {
		got, err := Unpack(http.Header{"Content-Type": c.types, "Content-Encoding": c.codings}, []byte(c.body), limit)
		var e *Error
		if c.reason == "" && (err != nil || string(got) != c.want) || c.reason != "" && (!errors.As(err, &e) || e.Reason != c.reason || got != nil) {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}
