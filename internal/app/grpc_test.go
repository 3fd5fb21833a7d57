package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// echo is the service that gRPC is tested with.
const echo = `name: echo
version: 1.0.0
description: gRPC, for tests
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  call: {description: Call a method, method: POST, path: "/test.Echo/{method}", idempotent: true, risk: {level: low}, args: [{name: method, type: string, required: true}]}
`

type text = wrapperspb.StringValue

// server is gRPC's own, and what its methods see.
type server struct {
	auth chan string     // of each call
	gone chan codes.Code // how a Wait ended
}

// call serves every method as a stream.
func (s *server) call(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	md, _ := metadata.FromIncomingContext(stream.Context())
	s.auth <- strings.Join(md.Get("authorization"), ",")
	var in text
	switch method {
	case "/test.Echo/Unary":
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		_ = stream.SetHeader(metadata.Pairs("x-head", "1", "x-data-bin", "\x00\xff"))
		stream.SetTrailer(metadata.Pairs("x-tail", "2"))
		return stream.SendMsg(&in)
	case "/test.Echo/Down":
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		for i := range 5 {
			if err := stream.SendMsg(wrapperspb.String(fmt.Sprint(in.Value, i))); err != nil {
				return err
			}
		}
		return nil
	case "/test.Echo/Up":
		var all string
		for {
			if err := stream.RecvMsg(&in); errors.Is(err, io.EOF) {
				return stream.SendMsg(wrapperspb.String(all))
			} else if err != nil {
				return err
			}
			all += in.Value
		}
	case "/test.Echo/Both":
		for {
			if err := stream.RecvMsg(&in); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := stream.SendMsg(&in); err != nil {
				return err
			}
		}
	case "/test.Echo/Wait":
		_ = stream.RecvMsg(&in)
		if in.Value != "" {
			_ = stream.SendMsg(&in)
		}
		<-stream.Context().Done()
		s.gone <- status.FromContextError(stream.Context().Err()).Code()
		return stream.Context().Err()
	}
	refused, err := status.New(codes.FailedPrecondition, "not now: ü").WithDetails(wrapperspb.String("because"))
	if err != nil {
		return err
	}
	return refused.Err()
}

// conns gives a gRPC server connections that are there already.
type conns struct {
	ready chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (c *conns) Accept() (net.Conn, error) {
	select {
	case conn := <-c.ready:
		return conn, nil
	case <-c.done:
		return nil, net.ErrClosed
	}
}
func (c *conns) Close() error   { c.once.Do(func() { close(c.done) }); return nil }
func (c *conns) Addr() net.Addr { return &net.TCPAddr{} }

// served is a connection that says when the server has closed it.
type served struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

func (s *served) Close() error { s.once.Do(func() { close(s.closed) }); return s.Conn.Close() }

// newGRPC is a client of grpc-go, a kimbap and a server of grpc-go.
func newGRPC(t *testing.T) (*apptest.Kimbap, *server, *grpc.ClientConn) {
	t.Helper()
	s := &server{auth: make(chan string, 100), gone: make(chan codes.Code, 1)}
	up := &conns{ready: make(chan net.Conn), done: make(chan struct{})}
	g := grpc.NewServer(grpc.UnknownServiceHandler(s.call))
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(up) })
	k := apptest.New(t, apptest.Options{Services: []string{echo}, Upstream: servicestest.Options{H2: func(c net.Conn) {
		own := &served{Conn: c, closed: make(chan struct{})}
		up.ready <- own
		<-own.closed
	}}})
	t.Cleanup(func() { g.Stop(); serving.Wait() })
	client, err := grpc.NewClient("passthrough:///"+apptest.Authority,
		grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(k.Roots(), "")),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			w, a := k.Connect(t, apptest.Authority)
			if a.Status != 200 {
				return nil, fmt.Errorf("CONNECT: %d %+v", a.Status, a.Problem)
			}
			return w, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return k, s, client
}

// gRPC works through the proxy as without it, and never sees the credential.
func TestGRPC(t *testing.T) {
	t.Parallel()
	k, s, client := newGRPC(t)
	mark := k.Mark(t)
	calls := map[string]func(*testing.T){
		"unary": func(t *testing.T) {
			var out text
			var head, tail metadata.MD
			long := strings.Repeat("kimbap ", 300_000)
			err := client.Invoke(t.Context(), "/test.Echo/Unary", wrapperspb.String(long), &out, grpc.Header(&head), grpc.Trailer(&tail))
			if err != nil || out.Value != long || fmt.Sprint(head.Get("x-head"), tail.Get("x-tail"), head.Get("x-data-bin")) != "[1] [2] [\x00\xff]" {
				t.Errorf("%d bytes, %v %v %v", len(out.Value), head, tail, err)
			}
		},
		"refused at once": func(t *testing.T) { failsWith(t, client, "/test.Echo/Fail", codes.FailedPrecondition) },
		"server streaming": func(t *testing.T) {
			stream := open(t, t.Context(), client, "Down")
			send(t, stream, "e")
			_ = stream.CloseSend()
			for i := range 5 {
				receive(t, stream, fmt.Sprint("e", i))
			}
			ends(t, stream, codes.OK)
		},
		"client streaming": func(t *testing.T) {
			stream := open(t, t.Context(), client, "Up")
			for i := range 5 {
				send(t, stream, fmt.Sprint(i))
			}
			_ = stream.CloseSend()
			receive(t, stream, "01234")
			ends(t, stream, codes.OK)
		},
		"both": func(t *testing.T) {
			stream := open(t, t.Context(), client, "Both")
			for i := range 5 { // each is back before the next goes
				send(t, stream, fmt.Sprint(i))
				receive(t, stream, fmt.Sprint(i))
			}
			_ = stream.CloseSend()
			ends(t, stream, codes.OK)
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			call(t)
			if got := <-s.auth; got != "Bearer "+apptest.Key {
				t.Errorf("the server was shown %q", got)
			}
		})
	}
	for _, r := range k.Await(t, mark, 2*len(calls)) {
		if r.Action != "echo.call" || r.Kind != "intent" && (r.Result != "ok" || r.Status != 200) {
			t.Errorf("recorded %s", r.Line)
		}
	}
	k.Verify(t)
}

// A deadline is the server's too, and a client that cancels ends the call there.
func TestGRPCDeadlineAndCancel(t *testing.T) {
	t.Parallel()
	_, s, client := newGRPC(t)
	failsWith(t, client, "/test.Echo/Fail", codes.FailedPrecondition) // the deadline is not that of the connection
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	stream := open(t, ctx, client, "Wait")
	send(t, stream, "")
	_ = stream.CloseSend()
	ends(t, stream, codes.DeadlineExceeded)
	if code := <-s.gone; code != codes.DeadlineExceeded && code != codes.Canceled {
		t.Errorf("the server's call ended with %v", code)
	}
	ctx, stop := context.WithCancel(t.Context())
	stream = open(t, ctx, client, "Wait")
	send(t, stream, "begin")
	receive(t, stream, "begin")
	stop()
	ends(t, stream, codes.Canceled)
	if code := <-s.gone; code != codes.Canceled {
		t.Errorf("the server's call ended with %v", code)
	}
	failsWith(t, client, "/test.Echo/Fail", codes.FailedPrecondition) // the connection goes on
}

// A method that no action covers is refused by kimbap in words that gRPC shows.
func TestGRPCRefusedByUs(t *testing.T) {
	t.Parallel()
	_, s, client := newGRPC(t)
	err := client.Invoke(t.Context(), "/other.Service/Call", wrapperspb.String("x"), &text{})
	if got := status.Convert(err); got.Code() != codes.PermissionDenied || !strings.HasPrefix(got.Message(), "kimbap: ") {
		t.Errorf("got %v", err)
	}
	if len(s.auth) > 0 {
		t.Error("the server was asked")
	}
}

func failsWith(t *testing.T, client *grpc.ClientConn, method string, code codes.Code) {
	t.Helper()
	err := client.Invoke(t.Context(), method, wrapperspb.String("x"), &text{})
	got := status.Convert(err)
	if got.Code() != code || got.Message() != "not now: ü" || len(got.Details()) != 1 {
		t.Errorf("got %v with %v", err, got.Details())
	}
}

func open(t *testing.T, ctx context.Context, client *grpc.ClientConn, method string) grpc.ClientStream {
	t.Helper()
	stream, err := client.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Echo/"+method)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func send(t *testing.T, stream grpc.ClientStream, value string) {
	t.Helper()
	if err := stream.SendMsg(wrapperspb.String(value)); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, stream grpc.ClientStream, want string) {
	t.Helper()
	var out text
	if err := stream.RecvMsg(&out); err != nil || out.Value != want {
		t.Fatalf("got %q %v, want %q", out.Value, err, want)
	}
}

func ends(t *testing.T, stream grpc.ClientStream, code codes.Code) {
	t.Helper()
	err := stream.RecvMsg(&text{})
	if code == codes.OK && errors.Is(err, io.EOF) {
		return
	}
	if status.Code(err) != code || code == codes.OK {
		t.Errorf("ended with %v, want %v", err, code)
	}
}
