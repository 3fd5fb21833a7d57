package rest_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// unwatched is a rig of the relay engine alone, with nothing between it and the
// wire.
func unwatched(t *testing.T, o servicestest.Options, edit ...func(*rest.Options)) *rig {
	t.Helper()
	return newRig(t, o, append([]func(*rest.Options){func(o *rest.Options) {
		o.Engine, o.VerifyMutations = rest.EngineRelay, false
	}}, edit...)...)
}

// routes is one behaviour under a path.
func routes(path string, b servicestest.Behave) servicestest.Options {
	return servicestest.Options{Routes: map[string]servicestest.Behave{path: b}}
}

func TestFieldsLeaveInTheCallersOrder(t *testing.T) {
	r := unwatched(t, servicestest.Options{})
	c := r.call("POST", "/x", "X-B: 1", "Authorization: test_kimbap", "X-A: 2", "X-B: 3", "Content-Length: 2", "Te: gzip")
	c.Request.Raw.Order = []string{"x-B", "TE", "authorization", "content-length", "hOST", "X-b", "x-a"}
	r.must(t, body(c, strings.NewReader("ok"), 2))
	equal(t, "head", string(r.Last(t).Head), "POST /x HTTP/1.1\r\nx-B: 1\r\nauthorization: Bearer "+canary+
		"\r\ncontent-length: 2\r\nhOST: "+r.Authority+"\r\nX-b: 3\r\nx-a: 2\r\n\r\n")
}

// A body that is held back leaves once the upstream asks for it, or after a while, in the
// caller's order and on a connection that others have after it (RFC 9110 section 10.1.1).
func TestAHeldBackBodyIsOneOfTheRelay(t *testing.T) {
	silent := func(c *servicestest.Conn, q *servicestest.Request) bool { // it knows no 100
		return c.ReadBody(q) == nil && c.Send("HTTP/1.1 200 All Right\r\nContent-Length: 2\r\n\r\nok")
	}
	r := unwatched(t, routes("/silent", silent))
	for _, path := range []string{"/expect", "/silent", "/expect"} {
		c := body(r.call("PUT", path, "X-B: 1", "Expect: 100-continue", "X-A: 2", "Content-Length: 5"), strings.NewReader("12345"), 5)
		c.Request.Raw.Order = []string{"X-B", "expect", "Host", "X-A", "Content-Length"}
		r.must(t, c)
		equal(t, "head", string(r.Last(t).Head), "PUT "+path+" HTTP/1.1\r\nX-B: 1\r\nexpect: 100-continue\r\nHost: "+r.Authority+
			"\r\nX-A: 2\r\nContent-Length: 5\r\nAuthorization: Bearer "+canary+"\r\n\r\n")
		equal(t, "body", string(r.Last(t).RawBody), "12345")
		equal(t, "connections", r.Connections(), 1)
	}
	refused := body(r.call("PUT", "/refuse-early", "Expect: 100-continue"), readerFunc(func([]byte) (int, error) {
		t.Error("the body was asked for although the upstream had refused")
		return 0, io.EOF
	}), 5)
	answer, _ := r.must(t, refused)
	equal(t, "status", answer.Status, 413)
	r.must(t, r.call("GET", "/"))
	equal(t, "connections", r.Connections(), 2) // on the first one the upstream may still wait for a body
}

// formed is a responder that repeats the form of a head.
type formed struct {
	*runtimetest.Responder
	form    runtime.Form
	hurried chan struct{} // closed by Hurry; may be nil
}

func (f *formed) Like(form runtime.Form) { f.form = form }

func (f *formed) Hurry() {
	if f.hurried != nil {
		close(f.hurried)
	}
}

// A head does not wait for bytes of the body that came but cannot be passed on
// yet: the beginning of an encoding, or what may become the credential.
func TestTheHeadDoesNotWaitForMoreOfTheBody(t *testing.T) {
	packed := servicestest.Gzip("an event")
	for name, c := range map[string]struct{ coding, begin, rest string }{
		"gzip":           {"Content-Encoding: gzip\r\n", packed[:10], packed[10:]},
		"the credential": {"", canary[:9], "else"},
	} {
		for _, verify := range []bool{false, true} {
			t.Run(fmt.Sprint(name, verify), func(t *testing.T) {
				hurried := make(chan struct{})
				r := unwatched(t, routes("/live", func(conn *servicestest.Conn, _ *servicestest.Request) bool {
					conn.Send("HTTP/1.1 200 OK\r\n" + c.coding + "Transfer-Encoding: chunked\r\n\r\n" + servicestest.Chunk(c.begin))
					select {
					case <-hurried:
					case <-time.After(10 * time.Second):
						return false
					}
					return conn.Send(servicestest.Chunk(c.rest), "0\r\n\r\n")
				}), func(o *rest.Options) { o.VerifyMutations = verify })
				out := &formed{Responder: &runtimetest.Responder{}, hurried: hurried}
				if _, err := r.backend.Execute(t.Context(), r.call("GET", "/live"), out); err != nil {
					t.Fatal(err)
				}
				equal(t, "body", out.Answer().Body, c.begin+c.rest)
			})
		}
	}
}

func TestTheFormOfAnAnswerIsKept(t *testing.T) {
	const head = "HTTP/1.1 200 Alles  gut\r\nx-b: 1\r\ncontent-length: 0\r\nX-A: 2\r\n\r\n"
	for _, verify := range []bool{false, true} {
		r := unwatched(t, routes("/form", func(c *servicestest.Conn, _ *servicestest.Request) bool { return c.Send(head) }),
			func(o *rest.Options) { o.VerifyMutations = verify })
		out := &formed{Responder: &runtimetest.Responder{}}
		if _, err := r.backend.Execute(context.Background(), r.call("GET", "/form"), out); err != nil {
			t.Fatal(err)
		}
		equal(t, "reason", out.form.Reason, "Alles  gut")
		equal(t, "order", strings.Join(out.form.Order, " "), "x-b content-length X-A")
	}
}

// Some servers pad the sizes of their chunks to one width.
func TestPaddedChunksPass(t *testing.T) {
	r := newRig(t, routes("/padded", func(c *servicestest.Conn, q *servicestest.Request) bool {
		return c.ReadBody(q) == nil && c.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "5   \r\nhello\r\n6\t\r\n world\r\n0   \r\n\r\n")
	}))
	for range 2 {
		answer, _ := r.must(t, r.call("GET", "/padded"))
		equal(t, "body", answer.Body, "hello world")
	}
	equal(t, "connections", r.Connections(), 1)
}

// What follows an answer is given to nobody, whether it came with the answer or
// while the connection was kept; and a connection on which more may still come
// is not kept.
func TestWhatFollowsAnAnswerIsGivenToNobody(t *testing.T) {
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	for _, cleartext := range []bool{false, true} {
		for _, c := range []struct {
			name, answer, behind, later string
			conns                       int
		}{
			{"with it", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", evil, "", 2},
			{"after chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", evil, "", 2},
			{"a single byte", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "H", "", 2},
			{"after a 304", "HTTP/1.1 304 Not Modified\r\n\r\n", evil, "", 2},
			{"later", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "", evil, 2},
			{"a 204 that announces a body", "HTTP/1.1 204 No Content\r\nContent-Length: 47\r\n\r\n", "", "", 2},
			{"a 204 in chunks", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", "", "", 2},
			{"two framings", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", "", 2},
			{"nothing", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "", "", 1},
			{"nothing after a 204", "HTTP/1.1 204 No Content\r\n\r\n", "", "", 1},
			{"nothing after a 204 of no length", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "", "", 1},
			{"nothing after a 304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "", "", 1},
		} {
			t.Run(fmt.Sprint(c.name, " cleartext=", cleartext), func(t *testing.T) {
				more, said := make(chan struct{}), make(chan struct{})
				o := routes("/first", func(conn *servicestest.Conn, _ *servicestest.Request) bool {
					ok := conn.Send(c.answer + c.behind)
					<-more
					ok = ok && (c.later == "" || conn.Send(c.later))
					close(said)
					return ok
				})
				o.Cleartext = cleartext
				r := newRig(t, o, func(o *rest.Options) { o.VerifyMutations = false })
				r.must(t, pass(r.call("GET", "/first")))
				close(more)
				<-said
				answer, _ := r.must(t, pass(r.call("GET", "/")))
				equal(t, "answer", answer.Body, "ok")
				if engine == rest.EngineRelay { // net/http is not asked to keep any
					equal(t, "connections", r.Connections(), c.conns)
				}
			})
		}
	}
}

func TestAnswersToHEADKeepTheConnection(t *testing.T) {
	r := unwatched(t, routes("/chunks", func(c *servicestest.Conn, _ *servicestest.Request) bool {
		return c.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	}))
	for _, path := range []string{"/head", "/chunks", "/"} {
		r.must(t, r.call("HEAD", "/head"))
		equal(t, path, r.Connections(), 1)
	}
}

// RFC 9112 sections 6.3 and 9.3, from an upstream that speaks 1.0.
func TestUpstreamsOfVersion10(t *testing.T) {
	for _, c := range []struct {
		name, answer, body string
		ends               bool
		conns              int
	}{
		{"until the end", "HTTP/1.0 200 OK\r\n\r\nall of it", "all of it", true, 2},
		{"1.1 until the end", "HTTP/1.1 200 OK\r\n\r\nall of it", "all of it", true, 2},
		{"with a length", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", false, 2},
		{"kept alive", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "ok", false, 1},
		{"1.1 that closes", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "ok", false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := unwatched(t, routes("/old", func(conn *servicestest.Conn, _ *servicestest.Request) bool { return conn.Send(c.answer) && !c.ends }))
			answer, _ := r.must(t, r.call("GET", "/old"))
			equal(t, "body", answer.Body, c.body)
			r.must(t, r.call("GET", "/"))
			equal(t, "connections", r.Connections(), c.conns)
		})
	}
}

// 1xx answers are counted, those that are not passed on too.
func TestInterimAnswersAreCounted(t *testing.T) {
	for _, status := range []string{"100 Continue", "103 Early Hints", "199 Odd"} {
		t.Run(status, func(t *testing.T) {
			r := unwatched(t, servicestest.Options{Routes: map[string]servicestest.Behave{
				"/64": func(c *servicestest.Conn, _ *servicestest.Request) bool {
					return c.Send(strings.Repeat("HTTP/1.1 "+status+"\r\n\r\n", 64), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				},
				"/65": func(c *servicestest.Conn, _ *servicestest.Request) bool {
					return c.Send(strings.Repeat("HTTP/1.1 "+status+"\r\n\r\n", 65), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				},
			}})
			answer, _ := r.must(t, r.call("GET", "/64"))
			equal(t, "answer", answer.Body, "ok")
			r.refused(t, r.call("GET", "/65"), runtime.CodeUpstream, "")
		})
	}
}
