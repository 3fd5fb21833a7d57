package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/runtime"
)

// A client that asks on and on and reads nothing is left waiting, not kept in memory; and
// what it asks for goes on once it reads. It is the same whatever of it is long.
func TestAClientThatDoesNotReadIsNotReadFurther(t *testing.T) {
	const each, all = 1 << 20, 4 * maxBacklog >> 20
	filling := strings.Repeat("x", each)
	for name, line := range map[string]string{
		"params": `{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"_meta":{"x":%q}}}` + "\n",
		"id":     `{"jsonrpc":"2.0","id":"%d%[2]s","method":"ping"}` + "\n",
		"method": `{"jsonrpc":"2.0","id":%d,"method":%q}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			toServer, fromServer, done := overPipes(t)
			finished := make(chan struct{})
			go func() {
				defer close(finished)
				for id := range all {
					if _, err := fmt.Fprintf(toServer, line, id, filling); err != nil {
						t.Error(err)
					}
				}
			}()
			select {
			case <-finished:
				t.Errorf("%d MiB were taken, and no answer was read", all)
			case <-time.After(2 * time.Second): // all of it takes half a second
			}
			go func() { _, _ = io.Copy(io.Discard, fromServer) }()
			<-finished
			_ = toServer.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// Notifications are not answered, so nothing holds them up. Of those that do something here
// there are no more than requests, and no longer ones; what does nothing goes no further.
func TestNotificationsAreNoMoreThanRequests(t *testing.T) {
	message := func(method, params string, id any) jsonrpc.Message {
		of, err := jsonrpc.MakeID(id)
		if err != nil {
			t.Fatal(err)
		}
		return &jsonrpc.Request{ID: of, Method: method, Params: json.RawMessage(params)}
	}
	long := strings.Repeat("x", 1<<20)
	cancel := func(id string) jsonrpc.Message {
		return message("notifications/cancelled", `{"requestId":`+id+`,"reason":"`+long+`"}`, nil)
	}
	begin := message("notifications/initialized", `{"x":"`+long+`"}`, nil)
	given := &given{all: []jsonrpc.Message{
		message("initialize", "", 1.), begin, begin, cancel("1"), cancel("1"), cancel("7"), message("notifications/progress", `"`+long+`"`, nil),
		message("notifications/cancelled", "5", nil), message("ping", "", "b"), begin, cancel(`"b"`), cancel(`"b"`),
	}}
	c, err := bounded{given, newLines(nil, nil)}.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	for {
		one, err := c.Read(t.Context())
		if err != nil {
			break
		}
		read = append(read, one.(*jsonrpc.Request).Method+string(one.(*jsonrpc.Request).Params))
	}
	const want = `initialize notifications/initialized notifications/cancelled{"requestId":1} ping notifications/initialized notifications/cancelled{"requestId":"b"}`
	if got := strings.Join(read, " "); got != want {
		t.Errorf("read %.500s", got)
	}
}

// given is a connection with what a client has said.
type given struct {
	sdk.Connection
	all []jsonrpc.Message
}

func (g *given) Connect(context.Context) (sdk.Connection, error) { return g, nil }

func (g *given) Read(context.Context) (jsonrpc.Message, error) {
	if len(g.all) == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	next := g.all[0]
	g.all = g.all[1:]
	return next, nil
}

// unread is the connection to a client that reads an answer when it is let to.
type unread struct {
	sdk.Connection
	ids   []float64
	begun chan struct{}
	goOn  chan struct{}
}

func (u *unread) Connect(context.Context) (sdk.Connection, error) { return u, nil }

func (u *unread) Read(context.Context) (jsonrpc.Message, error) {
	id, err := jsonrpc.MakeID(u.ids[0])
	u.ids = u.ids[1:]
	return &jsonrpc.Request{ID: id, Method: "ping"}, err
}

func (u *unread) Write(context.Context, jsonrpc.Message) error {
	u.begun <- struct{}{}
	<-u.goOn
	return nil
}

// An id that comes again counts again once its answer waits to be read, and is passed over
// before that, when the SDK would not answer it.
func TestEachRequestOfOneIDCounts(t *testing.T) {
	u := &unread{ids: []float64{1, 1, 2, 1}, begun: make(chan struct{}), goOn: make(chan struct{})}
	c, err := bounded{u, newLines(nil, nil)}.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read := func(want float64, unanswered int) *jsonrpc.Request {
		t.Helper()
		message, err := c.Read(t.Context())
		request, is := message.(*jsonrpc.Request)
		if err != nil || !is {
			t.Fatal(message, err)
		}
		if id, _ := jsonrpc.MakeID(want); request.ID != id {
			t.Errorf("read %v, want %v", request.ID, want)
		}
		if got := c.(*backlog).bytes; got != unanswered*perRequest {
			t.Errorf("%d bytes count, want those of %d requests", got, unanswered)
		}
		return request
	}
	first := read(1, 1)
	read(2, 2) // not the second one of the first's id
	written := make(chan error)
	go func() { written <- c.Write(t.Context(), &jsonrpc.Response{ID: first.ID}) }()
	<-u.begun
	read(1, 3)
	close(u.goOn)
	if err := <-written; err != nil || c.(*backlog).bytes != 2*perRequest {
		t.Errorf("then %d bytes count, %v", c.(*backlog).bytes, err)
	}
}

// What a client has asked for before it says no more is done and answered.
func TestTheLastRequestsAreAnswered(t *testing.T) {
	o := whole()
	o.Call = func(ctx context.Context, _ runtime.Caller, _ Call) (Answer, error) {
		select {
		case <-ctx.Done():
			t.Error("it was cut off")
		case <-time.After(200 * time.Millisecond):
		}
		return Answer{Status: 200}, nil
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	fromServer, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- s.Run(t.Context(), io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"call","arguments":{"action":"a.b"}}}
`)), out)
	}()
	said, err := io.ReadAll(fromServer)
	for _, want := range []string{`"id":1,"result":`, `"id":2,"result":`, `"id":3,"result":`} {
		if err != nil || !strings.Contains(string(said), want) {
			t.Errorf("%s is not there: %s %v", want, said, err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What an answer has counts until the client has read it, with its request.
func TestAnAnswerCountsUntilItIsRead(t *testing.T) {
	u := &unread{ids: []float64{1}, begun: make(chan struct{}), goOn: make(chan struct{})}
	c, err := bounded{u, newLines(nil, nil)}.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	message, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const long = 1 << 20
	written := make(chan error)
	go func() {
		written <- c.Write(t.Context(), &jsonrpc.Response{ID: message.(*jsonrpc.Request).ID, Result: make([]byte, long)})
	}()
	<-u.begun
	b := c.(*backlog)
	b.mu.Lock()
	counted := b.bytes
	b.mu.Unlock()
	if counted != perRequest+long {
		t.Errorf("%d bytes count", counted)
	}
	close(u.goOn)
	if err := <-written; err != nil || b.bytes != 0 {
		t.Errorf("then %d bytes count, %v", b.bytes, err)
	}
}

func (c *collecting) Connect(context.Context) (sdk.Connection, error) { return c, nil }

func (c *collecting) Write(context.Context, jsonrpc.Message) error { return nil }

// A call that its client takes back ends.
func TestACallIsTakenBack(t *testing.T) {
	o := whole()
	began, ended := make(chan struct{}), make(chan struct{})
	o.Call = func(ctx context.Context, _ runtime.Caller, _ Call) (Answer, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return Answer{}, ctx.Err()
	}
	session := serve(t, o, "2025-06-18", nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	if _, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "call", Arguments: map[string]any{"action": "a.b"}}); err == nil {
		t.Error("it was answered")
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("it goes on")
	}
}
