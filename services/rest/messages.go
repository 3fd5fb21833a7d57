package rest

import (
	"encoding/binary"
	"errors"
	"net/http"
	"strings"
)

// errEnvelope is the end of an answer that said it would be of messages.
var errEnvelope = errors.New("malformed messages in the answer")

// messages finds the ends of the messages of gRPC and Connect, each of which has a flag and
// its length before it. At such an end the scrubber holds nothing back: who calls may have to
// read the whole message before anything more comes, and no credential goes on in the next
// one, since the flag is no character of any.
type messages struct {
	head  [5]byte
	have  int    // bytes of the head
	left  uint32 // of the message
	loose bool   // the next byte must be a flag: what might have been held back before it is out

	header http.Header // of the answer; may be nil
	packed bool        // a message is compressed
}

// messagesOf returns nil for an answer of another kind. That of gRPC-Web is one: there the
// caller has said all before the first message comes, and the flags may be base64.
func messagesOf(header http.Header) *messages {
	list := header["Content-Type"]
	if len(list) == 0 {
		return nil
	}
	if rest, is := strings.CutPrefix(list[0], "application/grpc"); is && (rest == "" || rest[0] == '+' || rest[0] == ';') ||
		strings.HasPrefix(list[0], "application/connect+") {
		return &messages{header: header}
	}
	return nil
}

// The flags: compressed, and the highest there is, which is that and the last of Connect.
const (
	sealedFlag = 1
	mostFlag   = 3
)

// end reports whether a message ends where the next bytes do.
func (m *messages) end(next []byte) (bool, error) {
	if m.loose && len(next) > 0 {
		if next[0] > mostFlag {
			return false, errEnvelope
		}
		m.loose = false
	}
	for len(next) > 0 {
		if m.left > 0 {
			n := min(uint64(m.left), uint64(len(next)))
			m.left -= uint32(n)
			next = next[n:]
			continue
		}
		n := copy(m.head[m.have:], next)
		next = next[n:]
		if m.have += n; m.have == len(m.head) {
			m.have, m.left = 0, binary.BigEndian.Uint32(m.head[1:])
			m.packed = m.packed || m.head[0]&sealedFlag != 0
		}
	}
	return m.have == 0 && m.left == 0, nil
}

func (m *messages) released()    { m.loose = true }
func (m *messages) sealed() bool { return m.packed }

// coding is what compressed messages are in, as a field of the answer says it.
func (m *messages) coding() string {
	for _, name := range []string{"Grpc-Encoding", "Connect-Content-Encoding"} {
		if list := m.header[name]; len(list) > 0 {
			return strings.ToLower(name) + " " + list[0]
		}
	}
	return "compressed messages"
}
