package server

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"unicode/utf8"
)

// piece is how much of an answer is made JSON at a time, in bytes. It is a multiple of three,
// as base64 needs it.
const piece = 12 << 10

// answerResult writes what an action answered, as {"result": …} or as it is. A text is up to
// six times as long in JSON, which no place in memory is meant for: that much is never there.
func answerResult(w http.ResponseWriter, result Result, raw bool, err error) error {
	if err != nil {
		return err
	}
	if result.Preview != nil {
		return answerJSON(w, http.StatusOK, map[string]any{"preview": result.Preview, "text": result.Text}, nil)
	}
	if raw {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(result.Body)
		if result.Ours && len(result.Body) > 0 {
			_, _ = w.Write([]byte("\n"))
		}
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	say := func(text string) { _, _ = io.WriteString(w, text) } // an answer that is kept for its key is kept whole, whoever has left
	say(`{"result":`)
	switch body := bytes.TrimSpace(result.Body); {
	case len(body) == 0:
		say("null")
	case json.Valid(body) && utf8.Valid(body):
		_, _ = w.Write(body)
	case json.Valid(body): // bytes in it that are no UTF-8 are in no JSON of ours (RFC 8259 section 8.1)
		_, _ = w.Write(bytes.ToValidUTF8(body, []byte("\uFFFD")))
	case utf8.Valid(result.Body):
		say(`"`)
		quote(w, result.Body)
		say(`"`)
	default:
		say(`{"base64":"`)
		var out []byte
		for part := range slices.Chunk(result.Body, piece) {
			out = base64.StdEncoding.AppendEncode(out[:0], part)
			_, _ = w.Write(out)
		}
		say(`"}`)
	}
	say("}\n")
	return nil
}

// quote writes a text as it stands between the quotes of JSON.
func quote(w io.Writer, text []byte) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for len(text) > 0 {
		n := min(piece, len(text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		out.Reset()
		_ = encoder.Encode(string(text[:n])) // never fails: it is a text
		_, _ = w.Write(out.Bytes()[len(`"`) : out.Len()-len("\"\n")])
		text = text[n:]
	}
}

// answerJSON writes a value, or returns the error.
func answerJSON(w http.ResponseWriter, status int, body any, err error) error {
	if err != nil {
		return err
	}
	text, err := encoded(body)
	if err == nil {
		writeJSON(w, status, text)
	}
	return err
}

// encoded is a value as JSON.
func encoded(body any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(body)
	return text.Bytes(), err
}

func writeJSON(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
