package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

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
	open *unanswered

	together  together
	unbatched bool // the session is one without batches
}

// batching are the versions of the protocol that have batches. In later ones a batch is
// no message.
var batching = [...]string{"2024-11-05", "2025-03-26"}

// maxBatch is how many messages a batch has at most. Their answers are kept until the last
// one is there, and may each be a hundred times as long as what asks for it.
const maxBatch = 100

func newLines(from io.ReadCloser, to io.Writer) *lines {
	return &lines{Closer: from, from: bufio.NewReaderSize(from, 64<<10), to: to, open: &unanswered{of: map[jsonrpc.ID]int{}}}
}

// Read implements [io.Reader].
func (l *lines) Read(p []byte) (int, error) {
	for len(l.left) == 0 {
		line, err := l.next()
		line = bytes.TrimSpace(line) // the SDK would end the session on a blank after a message
		switch refused := l.refusal(line, err); {
		case refused != nil:
			if err := l.answer(line, refused); err != nil {
				return 0, err
			}
		case len(line) > 0:
			var each []int
			l.left, each = apart(append(line, '\n'))
			l.together.add(each...)
		case err != nil:
			return 0, err
		}
	}
	n := copy(p, l.left)
	l.left = l.left[n:]
	return n, nil
}

// errLong is a line over maxMessage, of which nothing was kept but its id.
var errLong = errors.New("a message has at most 4 MiB")

// next reads one line. What comes with an error, but errLong, is the last one.
func (l *lines) next() (line []byte, err error) {
	var long *longID
	for {
		part, err := l.from.ReadSlice('\n')
		if long == nil && len(line)+len(part) > maxMessage {
			long = &longID{}
			long.read(line)
			line = nil
		}
		if long != nil {
			long.read(part)
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long != nil:
			return long.instead(), errLong
		default:
			return line, err
		}
	}
}

// refusal is the JSON-RPC error of a line that is no message, else nil (JSON-RPC 2.0
// section 5.1).
func (l *lines) refusal(line []byte, err error) *jsonrpc.Error {
	line = bytes.TrimSpace(line)
	switch {
	case errors.Is(err, errLong):
		return invalidRequest(errLong.Error())
	case len(line) == 0:
		return nil
	case !json.Valid(line):
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "this line is not a JSON document"}
	}
	var batch []json.RawMessage // of its own: reading into one that holds the line writes over the line
	batched := line[0] == '['
	switch {
	case !batched:
		batch = append(batch, line)
	case json.Unmarshal(line, &batch) != nil || len(batch) == 0:
		return invalidRequest("this batch has no message")
	case len(batch) > maxBatch:
		return errBatch()
	}
	requests, ids, refused := requestsOf(batch)
	if refused != nil {
		return refused
	}
	for _, request := range requests {
		l.notice(request)
	}
	switch {
	case batched && l.unbatched:
		return invalidRequest("this version of the protocol has no batches: send one message a line")
	case !l.open.add(ids, batched):
		return invalidRequest("a message of this batch has the id of one that is not answered yet")
	}
	return nil
}

// requestsOf are the requests and notifications of messages that came together, with the ids
// that wait for an answer; or the error of one that is no message, or whose answer would have
// another id.
func requestsOf(batch []json.RawMessage) (requests []*jsonrpc.Request, ids map[jsonrpc.ID]bool, refused *jsonrpc.Error) {
	ids = map[jsonrpc.ID]bool{}
	for _, one := range batch {
		if refused := doubled(one); refused != nil {
			return nil, nil, refused
		}
		message, err := jsonrpc.DecodeMessage(one)
		if err != nil {
			return nil, nil, invalidRequest("this is not a JSON-RPC 2.0 message")
		}
		request, is := message.(*jsonrpc.Request)
		switch {
		case !answerable(one, request):
			return nil, nil, invalidRequest("the id is neither a text nor an integer below 2^53")
		case !is:
			continue
		case ids[request.ID]:
			return nil, nil, invalidRequest("two messages of this batch have the same id")
		}
		if requests = append(requests, request); request.IsCall() {
			ids[request.ID] = true
		}
	}
	return requests, ids, nil
}

// members are those of a message, as they were written. Their names are compared as they
// are, as the SDK reads them.
func members(message []byte) (m map[string]json.RawMessage) {
	_ = json.Unmarshal(message, &m)
	return m
}

// answerable reports whether an answer to a message has its id, if it has one; request is
// nil for what is none. Some write null into notifications, which nobody answers.
func answerable(message []byte, request *jsonrpc.Request) bool {
	id := members(message)["id"]
	if string(id) == "null" {
		return request != nil && strings.HasPrefix(request.Method, "notifications/")
	}
	return id == nil || repeatable(id)
}

// repeatable reports whether an answer can have an id: a text, or an integer that every
// reader of JSON keeps (RFC 8259 section 6). The SDK would answer any other number under
// another one, and null not at all.
func repeatable(id json.RawMessage) bool {
	if len(id) > 0 && id[0] == '"' {
		return true
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(string(id), ".0"), 10, 64)
	return err == nil && -1<<53 < n && n < 1<<53
}

// apart is a line with the notifications of a batch before it, each on its own: nobody
// answers them, and the SDK would wait for that with the answers of the others. Of each
// line that this makes it says how many messages are together there, 0 for one alone.
func apart(line []byte) (out []byte, each []int) {
	var batch, calls []json.RawMessage
	if bytes.TrimSpace(line)[0] != '[' || json.Unmarshal(line, &batch) != nil {
		return line, []int{0}
	}
	for _, one := range batch {
		message, err := jsonrpc.DecodeMessage(one)
		if request, is := message.(*jsonrpc.Request); err == nil && is && !request.IsCall() {
			out, each = append(append(out, one...), '\n'), append(each, 0)
		} else {
			calls = append(calls, one)
		}
	}
	switch {
	case len(calls) == 0:
		return out, each
	case len(out) == 0:
		return line, []int{len(calls)}
	}
	rest, err := json.Marshal(calls)
	if err != nil { // cannot be: they were read
		return line, []int{len(batch)}
	}
	return append(append(out, rest...), '\n'), append(each, len(calls))
}

// errBatch is a batch of more than maxBatch.
func errBatch() *jsonrpc.Error {
	return invalidRequest(fmt.Sprintf("a batch has at most %d messages", maxBatch))
}

func invalidRequest(why string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: why}
}

// notice hears which version of the protocol a client asks for. One that is not known
// is answered with the latest. From 2026-07-28 on each request says it, and none begins. What is
// said later brings no batches back: a session keeps to its version.
func (l *lines) notice(request *jsonrpc.Request) {
	var asked struct {
		Version string `json:"protocolVersion"`
		Meta    struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
	if json.Unmarshal(request.Params, &asked) != nil {
		return
	}
	if version := cmp.Or(asked.Meta.Version, asked.Version); request.Method == "initialize" || asked.Meta.Version != "" {
		l.unbatched = l.unbatched || !slices.Contains(batching[:], version)
	}
}

// answer refuses a line, by its id where it has one and no other message waits for an answer
// to that. Of a batch every message that waits for an answer gets one.
func (l *lines) answer(line []byte, refused *jsonrpc.Error) error {
	var all []json.RawMessage
	ids := []json.RawMessage{idOf(line)}
	if json.Unmarshal(line, &all) == nil && len(all) > 0 {
		ids = nil
		for _, one := range all {
			if m := members(one); len(m["id"]) > 0 && len(m["method"]) > 0 {
				ids = append(ids, idOf(one))
			}
		}
	}
	if len(ids) == 0 {
		ids = append(ids, nil)
	}
	for _, id := range ids {
		if !repeatable(id) || l.open.has(id) {
			id = nil
		}
		body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": refused})
		if err == nil {
			_, err = fmt.Fprintf(l.to, "%s\n", body)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// busy is the code of a server that takes no client now: of those that JSON-RPC leaves
// to servers (JSON-RPC 2.0 section 5.1).
const busy = -32000

// Refuse answers what a client says first, on stdin or a socket, with an error. The
// client is not served; the caller hangs up, and sets the time for it.
func Refuse(client io.ReadWriter, why string) error {
	l := newLines(io.NopCloser(client), client)
	line, err := l.next()
	if len(bytes.TrimSpace(line)) == 0 {
		return err
	}
	return l.answer(line, &jsonrpc.Error{Code: busy, Message: why})
}

// turns lets one write at a time.
type turns struct {
	io.WriteCloser
	mu    sync.Mutex
	taken atomic.Int64 // bytes, a piece at a time
}

// piece is how much of an answer is written at a time, in bytes: so much is taken in time
// of each.
const piece = 64 << 10

// Write implements [io.Writer].
func (t *turns) Write(p []byte) (n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for err == nil && n < len(p) {
		var took int
		took, err = t.WriteCloser.Write(p[n:min(n+piece, len(p))])
		n += took
		t.taken.Add(int64(took))
	}
	return n, err
}
