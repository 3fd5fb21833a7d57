package request

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"mime"
	"mime/multipart"
	"net/textproto"
	"path"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// multipartBody writes a multipart/form-data body (RFC 7578). An object with the
// member filename is a file: {filename, content} with text, or {filename, base64},
// and content_type where the name does not say it. Everything else is a field.
func multipartBody(object map[string]any) (kind string, data []byte, err error) {
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails since Go 1.24
	if err := w.SetBoundary("kimbap-" + hex.EncodeToString(random[:])); err != nil {
		return "", nil, err
	}
	for _, name := range sortedNames(object) {
		if err := checkPartText("the name of a field", name); err != nil {
			return "", nil, err
		}
		list, many := object[name].([]any)
		if !many {
			list = []any{object[name]}
		}
		for _, value := range list {
			if err := writePart(w, name, value); err != nil {
				return "", nil, err
			}
		}
	}
	err = w.Close()
	return w.FormDataContentType(), out.Bytes(), err
}

func writePart(w *multipart.Writer, name string, value any) error {
	if value == nil {
		return nil
	}
	members, _ := value.(map[string]any)
	if _, isFile := members["filename"]; !isFile {
		part, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + quoted(name) + `"`}})
		if err == nil {
			_, err = part.Write([]byte(Text(value)))
		}
		return err
	}
	f, err := fileOf(name, members)
	if err != nil {
		return err
	}
	part, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="` + quoted(name) + `"; filename="` + quoted(f.name) + `"`},
		"Content-Type":        {f.media},
	})
	if err == nil {
		_, err = part.Write(f.content)
	}
	return err
}

// file is one file of a multipart body.
type file struct {
	name    string
	media   string
	content []byte
}

// FileName is what is sent of the name of a file: its last part. The folders of this machine
// are nobody's business, and a server that writes where a name says must not be led
// elsewhere.
func FileName(text string) string { return path.Base(strings.ReplaceAll(text, `\`, "/")) }

// fileOf reads a file out of an argument.
func fileOf(arg string, members map[string]any) (file, error) {
	f := file{media: "application/octet-stream"}
	for name, value := range members {
		text, isText := value.(string)
		if !isText {
			return f, fmt.Errorf("the file %q: its member %q must be text", arg, runtime.Printable(name))
		}
		switch name {
		case "filename":
			f.name = FileName(text)
		case "content":
			f.content = []byte(text)
		case "base64":
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return f, fmt.Errorf("the file %q: its member base64 is not base64", arg)
			}
			f.content = data
		case "content_type":
			if _, _, err := mime.ParseMediaType(text); err != nil {
				return f, fmt.Errorf("the file %q: its member content_type is not a media type", arg)
			}
			if err := checkPartText("the type of a file", text); err != nil {
				return f, err
			}
			f.media = text
		default:
			return f, fmt.Errorf("the file %q has the member %q, and may have filename, content or base64, content_type", arg, runtime.Printable(name))
		}
	}
	_, plain := members["content"]
	_, encoded := members["base64"]
	if plain == encoded {
		return f, fmt.Errorf("the file %q needs one of content and base64", arg)
	}
	if f.name == "." || f.name == ".." || f.name == "/" || f.name == "" {
		return f, fmt.Errorf("the file %q has no name", arg)
	}
	if _, given := members["content_type"]; !given {
		if byName := mime.TypeByExtension(path.Ext(f.name)); byName != "" {
			f.media = byName
		}
	}
	return f, checkPartText("the name of a file", f.name)
}

// checkPartText refuses what a server could read as the end of a part's head.
func checkPartText(what, text string) error {
	for _, r := range text {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return fmt.Errorf("%s holds a control character, or is not UTF-8", what)
		}
	}
	if len(text) > 1024 {
		return fmt.Errorf("%s is longer than 1024 bytes", what)
	}
	return nil
}

// quoted escapes as browsers do (RFC 7578 section 4.2 leaves it to them): a
// backslash is no escape there, so it is one of ours.
func quoted(text string) string { return quotes.Replace(text) }

// quotes is made once: to make it costs more than all else of a part.
var quotes = strings.NewReplacer(`"`, "%22", `\`, "%5C", "\r", "%0D", "\n", "%0A")

// Heads is a multipart body that [Build] made without what the parts hold, where that is not
// in parts itself. contentType is the body's. Its boundary is kimbap's own and cannot be
// guessed, so what is in a part begins no other to anybody.
func Heads(contentType string, body []byte) []byte {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return body
	}
	var heads []byte
	between := []byte("--" + params["boundary"])
	for i, part := range bytes.Split(body, between) {
		if i > 0 {
			heads = append(heads, between...)
		}
		head, _, whole := bytes.Cut(part, []byte("\r\n\r\n"))
		if whole && !bytes.Contains(bytes.ToLower(head), []byte("multipart/")) {
			part = part[:len(head)+len("\r\n\r\n")]
		}
		heads = append(heads, part...)
	}
	return heads
}

// WithPart puts a field before the others of a multipart body that [Build] made, so that
// no other part of the same name comes first, and returns the new body. contentType is
// the body's, with its boundary. The value is the credential's: the error, an
// *runtime.Error, does not hold it.
func WithPart(contentType string, body []byte, field, value string) ([]byte, error) {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return nil, &runtime.Error{Code: runtime.CodeInternal, Msg: "a built multipart body has no boundary"}
	}
	if strings.ContainsAny(value, "\r\n") {
		return nil, &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "the credential holds a line break and cannot be a field of a multipart body", Hint: "store it again without one"}
	}
	head := fmt.Sprintf("--%s\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n", params["boundary"], quoted(field), value)
	return append([]byte(head), body...), nil
}
