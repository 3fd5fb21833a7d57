package classifier

import (
	"bytes"
	"compress/gzip"
	"io"
	"mime"
	"net/http"
	"strings"
)

// Unpack returns what a body with these fields says to who decodes it, at most limit bytes:
// itself, or of JSON in gzip (RFC 1952), as Google's own clients for Java send it, what is
// in it. The body that is sent stays as it is, so all that readers could take otherwise is
// refused: another coding or several, a form (its raw bytes could be one too, to who ignores
// the coding; no JSON begins as gzip does), a header with names or comments in it, a second
// member, bytes behind it, a wrong checksum. Each field must be there once at most. The error
// is an [*Error] with code invalid_input.
func Unpack(header http.Header, body []byte, limit int64) ([]byte, error) {
	if !Packed(header) {
		return body, nil
	}
	if !Unpackable(header) {
		return nil, unsupported("send it without a Content-Encoding, or JSON in gzip")
	}
	from := bytes.NewReader(body)
	one, err := gzip.NewReader(from)
	if err != nil || !bytes.HasPrefix(body, []byte(plainGzip)) {
		return nil, unsupported("it is no plain gzip")
	}
	one.Multistream(false)
	text, err := io.ReadAll(io.LimitReader(one, limit+1))
	switch {
	case int64(len(text)) > limit:
		return nil, badInput(reasonBodyTooLarge, "the body decides what this request does, and is over %d bytes without its Content-Encoding", limit)
	case err != nil || from.Len() > 0:
		return nil, unsupported("it is not one whole gzip")
	}
	return text, nil
}

// Packed reports whether a body says of itself that it has to be unpacked.
func Packed(header http.Header) bool {
	for _, coding := range header["Content-Encoding"] {
		if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
			return true
		}
	}
	return false
}

// Unpackable reports whether a body is of the kind that [Unpack] unpacks: JSON in gzip.
func Unpackable(header http.Header) bool {
	types := header["Content-Type"]
	if !gzipped(header) || len(types) != 1 || OtherCharset(types) {
		return false
	}
	media, params, err := mime.ParseMediaType(types[0])
	charset, said := params["charset"]
	return err == nil && jsonMedia(media) && (!said || strings.EqualFold(charset, "utf-8"))
}

// plainGzip is how a gzip with no optional field begins.
const plainGzip = "\x1f\x8b\x08\x00"

// gzipped reports whether a body is in gzip and in no other coding.
func gzipped(header http.Header) bool {
	codings := header["Content-Encoding"]
	if len(codings) != 1 {
		return false
	}
	coding := strings.TrimSpace(codings[0])
	return strings.EqualFold(coding, "gzip") || strings.EqualFold(coding, "x-gzip")
}

// jsonMedia reports whether a media type, without parameters, is that of JSON.
func jsonMedia(media string) bool {
	return media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}
