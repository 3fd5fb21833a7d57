package http2

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kimbap-run/kimbap/proxy/http1"
)

// Head is the head of a request as its client sent it.
type Head struct {
	Method, Scheme, Authority, Path string // pseudo fields; "" for those that are not there

	Host   []string    // fields of that name, which are not in Header
	Header http.Header // in canonical form; several Cookie fields are one (RFC 9113 section 8.2.3)
	Length int64       // of the body; -1: not said; 0: there is none, or an empty one
	Ended  bool        // nothing follows
	Fields int         // lines, without the pseudo fields

	// Malformed says why it is no request (RFC 9113 section 8.1.1), "" of one that is, in
	// words for its sender: of what was sent they hold names of fields alone. The rest is
	// what came before that, and may not be trusted. The stream is reset behind its answer.
	Malformed string

	// TooLarge is a head whose last fields were over the limit, and are not here.
	TooLarge bool

	size int // as RFC 9113 section 6.5.2 counts, without what is not here
}

// fieldList takes the fields of one block as they are decoded.
type fieldList struct {
	fields []hpack.HeaderField
	left   int // bytes that it may become longer
	size   int // of fields
	large  bool
}

func (l *fieldList) begin(most int) { *l = fieldList{fields: l.fields[:0], left: most} }

// end forgets the fields, which are somebody's memory now or nobody's: a connection may
// rest for long behind a large head.
func (l *fieldList) end() {
	if clear(l.fields); cap(l.fields) > knownNames {
		l.fields = nil
	}
}

func (l *fieldList) add(f hpack.HeaderField) {
	if l.left -= int(f.Size()); l.left < 0 {
		l.large = true
		return
	}
	l.size += int(f.Size())
	l.fields = append(l.fields, f)
}

// readBlock reads a field block to its end (RFC 9113 section 4.3), whatever becomes of
// it: the table of what was decoded is the connection's.
func (c *conn) readBlock(f *http2.HeadersFrame) error {
	block := f.HeaderBlockFragment()
	if !f.HeadersEnded() {
		var err error
		if block, err = c.joinBlock(block); err != nil {
			return err
		}
	}
	c.list.begin(c.s.o.HeadBytes)
	_, err := c.dec.Write(block)
	switch {
	case errors.Is(err, hpack.ErrStringLength):
		return fmt.Errorf("%w: %w", ErrTooLarge, http2.ConnectionError(http2.ErrCodeCompression))
	case err != nil || c.dec.Close() != nil:
		return http2.ConnectionError(http2.ErrCodeCompression)
	}
	return nil
}

// joinBlock reads what follows the first part of a field block. The decoder is given all of
// it at once: what it has to put aside it keeps room for as long as the connection lives.
func (c *conn) joinBlock(first []byte) ([]byte, error) {
	c.within(c.s.o.HeadTimeout) // for all of it
	block := append([]byte(nil), first...)
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return nil, protocolError(err)
		}
		more, ok := frame.(*http2.ContinuationFrame)
		if !ok {
			return nil, http2.ConnectionError(http2.ErrCodeProtocol)
		}
		part := more.HeaderBlockFragment()
		if len(part) == 0 {
			if err := c.nothing(); err != nil {
				return nil, err
			}
		}
		if len(block)+len(part) > blockTimes*c.s.o.HeadBytes {
			return nil, fmt.Errorf("%w: %w", ErrTooLarge, http2.ConnectionError(http2.ErrCodeEnhanceYourCalm))
		}
		if block = append(block, part...); more.HeadersEnded() {
			return block, nil
		}
	}
}

// takeHead begins a stream, or ends one with its trailers.
func (c *conn) takeHead(f *http2.HeadersFrame) error {
	id, ends := f.StreamID, f.StreamEnded()
	self := f.HasPriority() && f.Priority.StreamDep == id
	if err := c.readBlock(f); err != nil {
		return err
	}
	defer c.list.end()
	if id&1 == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id <= c.last {
		return c.takeTrailer(id, ends)
	}
	c.last = id
	switch {
	case c.goneAway: // the client knows, and sends it elsewhere
		return c.nothing()
	case self:
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
	case len(c.streams) >= c.s.o.Streams, c.heads > 0 && c.heads+c.list.size > mostHeads:
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeRefusedStream}
	}
	return c.open(id, c.headOf(ends))
}

// headOf makes a head of the fields of the last block.
func (c *conn) headOf(ended bool) *Head {
	h := &Head{Header: make(http.Header, len(c.list.fields)), Ended: ended, Length: -1, TooLarge: c.list.large, size: c.list.size}
	var lengths, cookies []string
	for _, f := range c.list.fields {
		if h.Malformed != "" {
			break
		}
		if strings.HasPrefix(f.Name, ":") {
			h.blame(h.pseudo(f))
			continue
		}
		h.Fields++
		h.blame(checkField(f))
		switch f.Name {
		case "host":
			h.Host = append(h.Host, f.Value)
		case "cookie":
			cookies = append(cookies, f.Value)
		default:
			if f.Name == "content-length" {
				lengths = append(lengths, f.Value)
			}
			name := c.canonical(f.Name)
			h.Header[name] = append(h.Header[name], f.Value)
		}
	}
	if len(cookies) > 0 {
		h.Header["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	h.blame(h.whole())
	h.blame(h.measure(lengths))
	return h
}

// blame keeps what is wrong first.
func (h *Head) blame(why string) {
	if h.Malformed == "" {
		h.Malformed = why
	}
}

// pseudo takes a pseudo field (RFC 9113 section 8.3).
func (h *Head) pseudo(f hpack.HeaderField) string {
	var to *string
	switch f.Name {
	case ":method":
		to = &h.Method
	case ":scheme":
		to = &h.Scheme
	case ":authority":
		to = &h.Authority
	case ":path":
		to = &h.Path
	default:
		return "there is a pseudo field that requests do not have"
	}
	switch {
	case h.Fields > 0:
		return "a pseudo field stands behind other fields"
	case *to != "":
		return "the pseudo field " + f.Name + " is there more than once"
	case f.Value == "":
		return "the pseudo field " + f.Name + " is empty"
	case !clean(f.Value):
		return "there is a control character, or a blank at an end, in the pseudo field " + f.Name
	}
	*to = f.Value
	return ""
}

// checkField refuses what no field of HTTP/2 has (RFC 9113 sections 8.2.1 and 8.2.2).
func checkField(f hpack.HeaderField) string {
	if !http1.IsToken(f.Name) || strings.ToLower(f.Name) != f.Name {
		return "there is a field name that is not a token in lower case"
	}
	if !clean(f.Value) {
		return "there is a control character, or a blank at an end, in the field " + f.Name
	}
	switch f.Name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return "HTTP/2 has no field " + f.Name
	case "te":
		if f.Value != "trailers" {
			return "HTTP/2 has no TE but trailers"
		}
	}
	return ""
}

// clean reports whether a value is one that every reader takes for the same.
func clean(value string) bool {
	return http1.IsValue(value) && strings.Trim(value, " \t") == value
}

// whole refuses a head that lacks something, or says something that means nothing there.
func (h *Head) whole() string {
	switch {
	case h.TooLarge: // what is missing may be in what was too much
		return ""
	case h.Method == "":
		return "there is no :method"
	case h.Method == http.MethodConnect && (h.Scheme != "" || h.Path != ""):
		return "CONNECT has no :scheme and no :path"
	case h.Method == http.MethodConnect && h.Authority == "":
		return "CONNECT has no :authority"
	case h.Method == http.MethodConnect:
		return ""
	case h.Scheme == "":
		return "there is no :scheme"
	case h.Path == "":
		return "there is no :path"
	case h.Path[0] != '/' && h.Path != "*":
		return "the :path does not begin with a slash"
	}
	return ""
}

// measure finds out how long the body will be (RFC 9113 section 8.1.1).
func (h *Head) measure(lengths []string) string {
	switch len(lengths) {
	case 0:
		if h.Ended {
			h.Length = 0
		}
		return ""
	case 1:
	default:
		return "the field content-length is there more than once"
	}
	n, err := strconv.ParseUint(lengths[0], 10, 62)
	if err != nil {
		return "content-length is not a number"
	}
	if h.Ended && n != 0 {
		return "content-length is not the length of the body"
	}
	h.Length = int64(n)
	return ""
}

// knownNames is how many names a connection remembers.
const knownNames = 64

// canonical is the form of a name that header maps have.
func (c *conn) canonical(name string) string {
	if known, ok := c.names[name]; ok {
		return known
	}
	long := textproto.CanonicalMIMEHeaderKey(name)
	if len(c.names) < knownNames && len(name) < 64 {
		c.names[name] = long
	}
	return long
}
