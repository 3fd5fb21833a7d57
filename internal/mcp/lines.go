package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// lines hands on the messages of a client, of which each is one line. What is no
// message is answered here and goes no further: the SDK would end the session on it,
// with all that runs in it. It is read by one goroutine.
type lines struct {
	io.Closer
	from *bufio.Reader
	to   io.Writer
	left []byte // of the line that is being handed on
}

func newLines(from io.ReadCloser, to io.Writer) *lines {
	return &lines{Closer: from, from: bufio.NewReaderSize(from, 64<<10), to: to}
}

// Read implements [io.Reader].
func (l *lines) Read(p []byte) (int, error) {
	for len(l.left) == 0 {
		line, err := l.next()
		switch refused := refusal(line, err); {
		case refused != nil:
			if err := l.answer(line, refused); err != nil {
				return 0, err
			}
		case len(bytes.TrimSpace(line)) > 0:
			l.left = line
		case err != nil:
			return 0, err
		}
	}
	n := copy(p, l.left)
	l.left = l.left[n:]
	return n, nil
}

// errLong is a line over maxMessage, of which nothing was kept.
var errLong = errors.New("a message has at most 4 MiB")

// next reads one line. What comes with an error, but errLong, is the last one.
func (l *lines) next() (line []byte, err error) {
	long := false
	for {
		part, err := l.from.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxMessage; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long:
			return nil, errLong
		default:
			return line, err
		}
	}
}

// refusal is the JSON-RPC error of a line that is no message, else nil (JSON-RPC 2.0
// section 5.1).
func refusal(line []byte, err error) *jsonrpc.Error {
	line = bytes.TrimSpace(line)
	switch {
	case errors.Is(err, errLong):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: errLong.Error()}
	case len(line) == 0:
		return nil
	case !json.Valid(line):
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "this line is not a JSON document"}
	}
	batch := []json.RawMessage{line}
	if line[0] == '[' && (json.Unmarshal(line, &batch) != nil || len(batch) == 0) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this batch has no message"}
	}
	for _, one := range batch {
		if _, err := jsonrpc.DecodeMessage(one); err != nil {
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this is not a JSON-RPC 2.0 message"}
		}
	}
	return nil
}

// answer refuses a line, by its id where it has one.
func (l *lines) answer(line []byte, refused *jsonrpc.Error) error {
	var said struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(line, &said) != nil || len(said.ID) == 0 || bytes.ContainsRune([]byte("{[tf"), rune(said.ID[0])) {
		said.ID = nil // neither a text nor a number
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": said.ID, "error": refused})
	if err == nil {
		_, err = fmt.Fprintf(l.to, "%s\n", body)
	}
	return err
}

// turns lets one write at a time.
type turns struct {
	io.WriteCloser
	mu sync.Mutex
}

// Write implements [io.Writer].
func (t *turns) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.WriteCloser.Write(p)
}
