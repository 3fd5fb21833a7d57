package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client that asks and asks and does not read would have all of it kept, since the SDK
// reads on while what was answered waits to be written. What is not answered yet is
// bounded instead, with the answers that are not read; then nothing more is read, and the
// client waits.
const (
	maxBacklog = 4 * maxMessage // bytes of requests that are not answered, and of answers
	perRequest = 16 << 10       // bytes that each counts as beside its own, its id and method at least
)

// bounded is a transport of which no more is read while its client has too much
// unanswered.
type bounded struct {
	sdk.Transport
	lines *lines // that it reads
}

// Connect implements [sdk.Transport].
func (b bounded) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := b.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &backlog{Connection: conn, lines: b.lines, asked: map[jsonrpc.ID]asked{}}
	c.room.L = &c.mu
	return c, nil
}

// backlog counts what a client has asked for until the answer is written. What it asks for
// last is answered too: how long that may take says ending.
type backlog struct {
	sdk.Connection
	lines *lines
	batch *batch // of the message that was read last; nil: it came alone
	rest  int    // so many more come with it

	mu     sync.Mutex
	room   sync.Cond
	asked  map[jsonrpc.ID]asked
	bytes  int  // of all of it
	brief  int  // so many of it end by themselves
	begins bool // something was asked since the last notice that the client begins
	heard  bool // the client is past the beginning of its session
	closed bool
}

// asked is one request that is not answered.
type asked struct {
	bytes, brief int
	batch        *batch // that its answer is one of
	canceled     bool   // the client has said so
}

// batch are messages that came together: the SDK keeps their answers until the last one
// is there, so they count until then.
type batch struct {
	left  int // not answered, or not read
	bytes int // of those that are
	begun bool
}

// lasting is a request that is answered when the session ends, and no sooner.
const lasting = "subscriptions/listen"

// Read implements [sdk.Connection].
func (b *backlog) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		message, err := b.Connection.Read(ctx)
		if errors.Is(err, io.EOF) {
			b.answered()
		}
		if err != nil {
			return message, err
		}
		b.follow()
		request, is := message.(*jsonrpc.Request)
		if is && request.Method != "initialize" && request.Method != "ping" {
			b.mu.Lock()
			b.heard = true
			b.mu.Unlock()
		}
		if !is || !request.IsCall() {
			b.end(asked{batch: b.batch})
			if is && !b.heeds(request) {
				continue
			}
			return message, nil
		}
		taken, err := b.take(request)
		if taken || err != nil {
			return message, err
		}
		b.lines.open.drop(request.ID)
	}
}

// follow finds the batch of the message that was read.
func (b *backlog) follow() {
	if b.rest == 0 {
		b.batch = nil
		if b.rest = b.lines.together.next(); b.rest > 0 {
			b.batch = &batch{left: b.rest}
		} else {
			b.rest = 1
		}
	}
	b.rest--
}

// take counts a request, once there is room for more; false for a second one of an id
// that is not answered yet, which the SDK would not answer either. What comes together is
// taken as a whole: no answer of it is written before.
func (b *backlog) take(request *jsonrpc.Request) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.bytes >= maxBacklog && !b.closed && (b.batch == nil || !b.batch.begun) {
		b.room.Wait()
	}
	if b.closed {
		return false, io.EOF
	}
	if b.batch != nil {
		b.batch.begun = true
	}
	if _, twice := b.asked[request.ID]; twice { // and it came alone: lines refuses a batch with such an id
		return false, nil
	}
	named := len(request.Method) + 2*lengthOf(request.ID) // lines keeps the id too
	one := asked{bytes: len(request.Params) + max(perRequest, named), brief: 1, batch: b.batch}
	if request.Method == lasting {
		one.brief = 0
	}
	b.asked[request.ID] = one
	b.bytes, b.brief, b.begins = b.bytes+one.bytes, b.brief+one.brief, true
	return true, nil
}

// heeds reports whether a notification does something here, and takes what is of no use
// from it: the SDK keeps any number of them while it waits to write an answer. So of what
// it is given there is at most one for each request: the end of one that is not answered,
// and what follows initialize.
func (b *backlog) heeds(note *jsonrpc.Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch note.Method {
	case "notifications/initialized":
		begins := b.begins
		b.begins, note.Params = false, nil
		return begins
	case "notifications/cancelled":
		var of struct {
			ID any `json:"requestId"`
		}
		if json.Unmarshal(note.Params, &of) != nil {
			return false
		}
		id, err := jsonrpc.MakeID(of.ID)
		one, open := b.asked[id]
		if err != nil || !open || one.canceled {
			return false
		}
		one.canceled = true
		b.asked[id] = one
		note.Params, err = json.Marshal(map[string]any{"requestId": id.Raw()})
		return err == nil
	}
	return false
}

// lengthOf is how long an id is that is a text.
func lengthOf(id jsonrpc.ID) int {
	text, _ := id.Raw().(string)
	return len(text)
}

// lengthOfAnswer is how long one is: an error repeats what it is about.
func lengthOfAnswer(response *jsonrpc.Response) int {
	if response.Error != nil {
		return len(response.Error.Error())
	}
	return len(response.Result)
}

// end counts a message no more, or with the last one of its batch.
func (b *backlog) end(one asked) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if of := one.batch; of != nil {
		of.bytes += one.bytes
		if of.left--; of.left > 0 {
			one.bytes = 0
		} else {
			one.bytes = of.bytes
		}
	}
	b.bytes, b.brief = b.bytes-one.bytes, b.brief-one.brief
	b.room.Broadcast()
}

// answered waits for the answers to all that was asked: at the end of what a client says
// the SDK would cancel it.
func (b *backlog) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.brief > 0 && !b.closed {
		b.room.Wait()
	}
}

// Write implements [sdk.Connection].
func (b *backlog) Write(ctx context.Context, message jsonrpc.Message) error {
	response, is := message.(*jsonrpc.Response)
	if !is {
		if b.early(message) {
			return nil
		}
		return b.Connection.Write(ctx, message)
	}
	b.mu.Lock()
	one := b.asked[response.ID]
	delete(b.asked, response.ID) // the SDK takes a next one of that id from here on
	long := lengthOfAnswer(response)
	one.bytes, b.bytes = one.bytes+long, b.bytes+long
	b.mu.Unlock()
	var err error
	if !one.canceled || one.batch != nil { // its client waits for no answer to what it took back
		err = b.Connection.Write(ctx, message)
	}
	b.lines.open.drop(response.ID) // the SDK takes a batch with that id from here on
	b.end(one)
	return err
}

// early reports whether a message says that the tools are others to a client that has not begun
// its session: it has none yet, and a server may not say so before.
func (b *backlog) early(message jsonrpc.Message) bool {
	request, is := message.(*jsonrpc.Request)
	if !is || request.Method != "notifications/tools/list_changed" {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.heard
}

// Close implements [sdk.Connection].
func (b *backlog) Close() error {
	b.mu.Lock()
	b.closed = true
	b.room.Broadcast()
	b.mu.Unlock()
	return b.Connection.Close()
}

// together says which messages came in one line, to who reads them one by one.
type together struct {
	mu    sync.Mutex
	lines []int // of what is not read yet: how many a batch has, 0: it came alone
}

// add is told of lines, in their order.
func (t *together) add(lines ...int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, lines...)
}

// next is how many came together with the next message, 0: it came alone.
func (t *together) next() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) > 0 {
		n, t.lines = t.lines[0], t.lines[1:]
	}
	return n
}
