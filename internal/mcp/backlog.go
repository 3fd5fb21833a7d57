package mcp

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client that asks and asks and does not read would have all of it kept, since the SDK
// reads on while what was answered waits to be written. What is not answered yet is
// bounded instead; then nothing more is read, and the client waits.
const (
	maxBacklog = 4 * maxMessage // bytes of requests that are not answered
	perRequest = 16 << 10       // bytes that each counts as beside its own
)

// bounded is a transport of which no more is read while its client has too much
// unanswered.
type bounded struct{ sdk.Transport }

// Connect implements [sdk.Transport].
func (b bounded) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := b.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &backlog{Connection: conn, asked: map[jsonrpc.ID]int{}}
	c.room.L = &c.mu
	return c, nil
}

// backlog counts what a client has asked for until the answer is written.
type backlog struct {
	sdk.Connection
	mu     sync.Mutex
	room   sync.Cond
	asked  map[jsonrpc.ID]int // bytes by request
	bytes  int
	closed bool
}

// Read implements [sdk.Connection].
func (b *backlog) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := b.Connection.Read(ctx)
	request, is := message.(*jsonrpc.Request)
	if err != nil || !is || !request.IsCall() {
		return message, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.bytes >= maxBacklog && !b.closed {
		b.room.Wait()
	}
	if b.closed {
		return nil, io.EOF
	}
	if _, twice := b.asked[request.ID]; !twice { // a second one of an id is not answered by itself
		b.asked[request.ID] = len(request.Params) + perRequest
		b.bytes += b.asked[request.ID]
	}
	return message, nil
}

// Write implements [sdk.Connection].
func (b *backlog) Write(ctx context.Context, message jsonrpc.Message) error {
	err := b.Connection.Write(ctx, message)
	if response, is := message.(*jsonrpc.Response); is {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.bytes -= b.asked[response.ID]
		delete(b.asked, response.ID)
		b.room.Broadcast()
	}
	return err
}

// Close implements [sdk.Connection].
func (b *backlog) Close() error {
	b.mu.Lock()
	b.closed = true
	b.room.Broadcast()
	b.mu.Unlock()
	return b.Connection.Close()
}
