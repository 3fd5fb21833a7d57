package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// revoking lets a test take the token away between two requests.
type revoking struct {
	Doer
	revoked *bool
}

func (d *revoking) Do(ctx context.Context, req *runtime.Request, out runtime.Responder) error {
	if *d.revoked {
		req.Caller.Token = runtime.NewSecret("kmb_revoked")
	}
	return d.Doer.Do(ctx, req, out)
}

// A host that a service owns from now on is not passed raw any longer.
func TestReloadClosesRawTunnels(t *testing.T) {
	r := newRig(t, nil)
	hold := func(c net.Conn, br *bufio.Reader) { _, _ = io.Copy(c, br) }
	r.upstream("new.test:80", hold)
	r.upstream("other.test:80", hold)
	changed := r.connect("new.test:80", "GET / HTTP/1.1\r\nHost: new.test\r\n\r\n")
	kept := r.connect("other.test:80", "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n")
	for _, c := range []*client{changed, kept} {
		if _, err := c.br.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	r.stages.own(t, append(slices.Clone(goodOrigins), "http://new.test:80")...)
	r.server.Reloaded()
	if rest, err := io.ReadAll(changed.br); isTimeout(err) {
		t.Errorf("still open after %q", rest)
	}
	kept.send("still here")
	if got, err := io.ReadAll(io.LimitReader(kept.br, int64(len("Host: other.test\r\n\r\nstill here")))); err != nil || !strings.HasSuffix(string(got), "still here") {
		t.Errorf("%q %v", got, err)
	}
}

// A tunnel that was judged before a reload and opened after it is no way round.
func TestReloadClosesATunnelThatIsStillOpening(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("new.test:80", func(c net.Conn, br *bufio.Reader) { _, _ = io.Copy(c, br) })
	c := r.connect("new.test:80", "GET / HTTP/1.1\r\n") // the head is not whole: nothing passes yet
	r.eventually("a place", func() bool { return len(r.server.tunnels.callers()) == 1 })
	r.stages.own(t, append(slices.Clone(goodOrigins), "http://new.test:80")...)
	r.server.Reloaded()
	c.send("Host: new.test\r\n\r\n")
	if got, err := io.ReadAll(c.br); isTimeout(err) || len(got) > 0 {
		t.Errorf("it opened: %q %v", got, err)
	}
}

// Once all hosts are intercepted none is passed raw any longer, in tunnels of before too.
func TestInterceptingAllClosesRawTunnels(t *testing.T) {
	var all atomic.Bool
	r := newRig(t, func(o *Options, _ *stages) { o.InterceptAll = all.Load })
	r.upstream("other.test:80", func(c net.Conn, br *bufio.Reader) { _, _ = io.Copy(c, br) })
	const head = "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"
	c := r.connect("other.test:80", head)
	if _, err := io.ReadFull(c.br, make([]byte, len(head))); err != nil {
		t.Fatal(err)
	}
	r.server.Reloaded()
	c.alive()
	all.Store(true)
	r.server.Reloaded()
	c.gone()
}

// One that waits for a place meanwhile is opened when it has one.
func TestInterceptingAllOpensATunnelThatWaits(t *testing.T) {
	var all atomic.Bool
	r := newRig(t, func(o *Options, _ *stages) {
		o.InterceptAll, o.Limits = all.Load, Limits{PerPrincipal: 1, QueueTimeout: patience, DrainTimeout: 5 * time.Second}
	})
	r.upstream("one.test:80", func(c net.Conn, br *bufio.Reader) { _, _ = io.Copy(c, br) })
	r.upstream("two.test:80", answering(okAnswer))
	first := r.connect("one.test:80", "GET / HTTP/1.1\r\nHost: one.test\r\n\r\n")
	if _, err := first.br.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	second := r.dial()
	second.send("CONNECT two.test:80 HTTP/1.1\r\nHost: two.test:80\r\n\r\n")
	r.eventually("the queue", func() bool { return r.server.tunnels.seats.Waiting() == 1 })
	all.Store(true)
	r.server.Reloaded()
	first.gone()
	r.outcome()
	second.answer("CONNECT")
	second.send("GET /seen HTTP/1.1\r\nHost: two.test\r\n\r\n")
	if resp, body := second.get("GET"); resp.StatusCode != 200 || body != "ok" {
		t.Errorf("%s %q", resp.Status, body)
	}
	if rec := r.outcome(); rec.Target.Method != "GET" || rec.Target.Path != "/seen" {
		t.Errorf("recorded %+v: nobody looked into it", rec.Target)
	}
}

// A raw tunnel is held by who dialled it, under the words it was dialled with, and ends
// when that one says so.
func TestARawTunnelIsHeld(t *testing.T) {
	ends, released := make(chan func(), 1), make(chan string, 1)
	r := newRig(t, func(o *Options, st *stages) {
		throughTunnel(t, o, st, TunnelOptions{Dialer: st, Peek: time.Second, Hold: func(authority, address string, _, _ bool, end func()) func() {
			ends <- end
			return func() { released <- authority }
		}})
	})
	r.upstream("other.test:80", func(c net.Conn, br *bufio.Reader) { _, _ = io.Copy(c, br) })
	const head = "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"
	c := r.connect("other.test:80", head)
	if _, err := io.ReadFull(c.br, make([]byte, len(head))); err != nil {
		t.Fatal(err)
	}
	c.alive()
	(<-ends)()
	c.gone()
	if authority := <-released; authority != "other.test:80" {
		t.Errorf("released %q", authority)
	}
}

// denying makes the policy of the test deny exactly these.
func (s *stages) denying(refs ...runtime.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.deny)
	for _, ref := range refs {
		s.deny[ref] = true
	}
}

// What a new policy denies does not go on in what the old one had opened.
func TestReloadClosesWhatPolicyDenies(t *testing.T) {
	r := newRig(t, nil)
	echo := func(c net.Conn, br *bufio.Reader) { _, _ = io.Copy(c, br) }
	r.upstream("other.test:80", echo)
	r.upstream("other.test:9000", echo)
	r.upstream("plain.good.test:80", websocket)
	r.stages.denying()
	const head = "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"
	passed, odd := r.connect("other.test:80", head), r.connect("other.test:9000", "\x00"+head)
	for c, want := range map[*client]int{passed: len(head), odd: len(head) + 1} {
		if _, err := io.ReadFull(c.br, make([]byte, want)); err != nil {
			t.Fatal(err)
		}
	}
	inside := r.connect("plain.good.test:80", "").upgraded("/open", "plain.good.test")
	direct := r.dial().upgraded("http://plain.good.test/open", "plain.good.test")
	r.server.Reloaded()
	for _, c := range []*client{passed, odd, inside, direct} {
		c.alive()
	}
	r.stages.denying(runtime.ActionPass)
	r.server.Reloaded()
	passed.gone()
	odd.alive()
	r.stages.denying(runtime.ActionTunnel)
	r.server.Reloaded()
	odd.gone()
	inside.alive()
	direct.alive()
	r.stages.denying("good.open")
	r.server.Reloaded()
	inside.gone()
	direct.gone()
}

// A service that no longer has the action closes what the action had opened.
func TestReloadClosesUpgradesOfLostActions(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("plain.good.test:80", websocket)
	inside := r.connect("plain.good.test:80", "").upgraded("/open", "plain.good.test")
	r.stages.own(t, "https://plain.good.test:80") // cleartext is refused from now on
	r.server.Reloaded()
	inside.gone()
}

// A policy that changes while an upgrade is on its way counts for it.
func TestReloadWhileUpgrading(t *testing.T) {
	r := newRig(t, nil)
	arrived, answer := make(chan struct{}), make(chan struct{})
	r.upstream("plain.good.test:80", func(c net.Conn, br *bufio.Reader) {
		close(arrived)
		<-answer
		websocket(c, br)
	})
	inside := r.connect("plain.good.test:80", "GET /open HTTP/1.1\r\nHost: plain.good.test\r\n"+askUpgrade)
	<-arrived
	r.stages.denying("good.open")
	r.server.Reloaded()
	close(answer)
	inside.gone()
}

// A yes of a person outlives a reload, what needed none does not survive a rule
// that asks.
func TestStands(t *testing.T) {
	for _, c := range []struct {
		then, now runtime.Effect
		stands    bool
	}{
		{runtime.EffectAllow, runtime.EffectAllow, true}, {runtime.EffectAllow, runtime.EffectAsk, false},
		{runtime.EffectAllow, runtime.EffectDeny, false}, {runtime.EffectAsk, runtime.EffectAsk, true},
		{runtime.EffectAsk, runtime.EffectAllow, true}, {runtime.EffectAsk, runtime.EffectDeny, false},
		{runtime.EffectAsk, "", false},
	} {
		r := newRig(t, func(o *Options, _ *stages) { o.Pipeline = fixed{o.Pipeline, c.now} })
		j := &judged{req: runtime.Request{Target: runtime.Target{Scheme: "tcp", Authority: "other.test:443"}}, effect: c.then}
		if got := r.server.stands(j); got != c.stands {
			t.Errorf("%s, then %q: %v", c.then, c.now, got)
		}
	}
}

// fixed judges everything alike.
type fixed struct {
	Doer
	effect runtime.Effect
}

func (f fixed) Judge(*runtime.Principal, *runtime.Request) runtime.Effect { return f.effect }

// What a token opened ends with the token where no request comes that could be
// refused: raw tunnels, and connections upgraded inside an intercepted one.
func TestRevocationClosesTunnels(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("raw.test:80", func(c net.Conn, br *bufio.Reader) { _, _ = io.Copy(c, br) })
	r.upstream("plain.good.test:80", websocket)
	open := func(authority, field, path string) *client {
		c := r.dial()
		c.send("CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n" + field + "\r\n")
		c.answer("CONNECT")
		host := strings.TrimSuffix(authority, ":80")
		upgrade := ""
		if path == "/open" {
			upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
		}
		c.send("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + upgrade + "\r\n")
		if _, err := c.br.ReadString('\n'); err != nil {
			t.Fatalf("%s: %v", authority, err)
		}
		return c
	}
	token := "Proxy-Authorization: " + basic("kimbap", goodToken) + "\r\n"
	revoked := []*client{open("raw.test:80", token, "/"), open("plain.good.test:80", token, "/open")}
	kept := open("raw.test:80", "", "/")
	r.server.Recheck(t.Context())
	r.stages.mu.Lock()
	r.stages.revoked = true
	r.stages.mu.Unlock()
	revoked[0].send("x") // the token was good at the first look
	if _, err := io.ReadAtLeast(revoked[0].br, make([]byte, 64), len("Host: raw.test\r\n\r\nx")); err != nil {
		t.Fatalf("closed too early: %v", err)
	}
	r.server.Recheck(t.Context())
	for i, c := range revoked {
		if rest, err := io.ReadAll(c.br); isTimeout(err) {
			t.Errorf("tunnel %d is still open after %q", i, rest)
		}
	}
	kept.send("still here")
	if got, err := io.ReadAll(io.LimitReader(kept.br, int64(len("Host: raw.test\r\n\r\nstill here")))); err != nil || !strings.HasSuffix(string(got), "still here") {
		t.Errorf("the owner's own tunnel: %q %v", got, err)
	}
}

// Shutdown lets a request finish, closes what is idle or quiet, and comes back
// with every outcome recorded.
func TestShutdownDrains(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	arrived, finish := make(chan struct{}), make(chan struct{})
	r.upstream("api.good.test:443", func(c net.Conn, br *bufio.Reader) {
		_, _ = br.ReadString('\n')
		close(arrived)
		<-finish
		_, _ = io.WriteString(c, okAnswer)
	})
	r.upstream("plain.test:80", func(c net.Conn, br *bufio.Reader) { _, _ = io.Copy(c, br) })
	busy, idle := r.open("api.good.test:443"), r.open("api.good.test:443")
	raw := r.connect("plain.test:80", "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	if _, err := raw.br.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	busy.send(openGood)
	<-arrived
	down := make(chan error, 1)
	go func() { down <- r.server.Shutdown(context.Background()) }()
	idle.ended()
	if c, err := net.Dial("tcp", r.addr); err == nil {
		t.Error("still accepting")
		_ = c.Close()
	}
	close(finish)
	if resp, body := busy.get("GET"); resp.StatusCode != 200 || body != "ok" {
		t.Errorf("%s %q", resp.Status, body)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
	if n := len(r.stages.outcomes); n != 2 {
		t.Errorf("%d outcomes when Shutdown returned, want 2", n)
	}
}

// A request that does not finish is cut at the end of the drain time.
func TestShutdownEnds(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) { o.Limits.DrainTimeout = 50 * time.Millisecond })
	arrived := make(chan struct{})
	r.upstream("api.good.test:443", func(_ net.Conn, br *bufio.Reader) {
		_, _ = br.ReadString('\n')
		close(arrived)
		_, _ = io.Copy(io.Discard, br)
	})
	inside := r.open("api.good.test:443")
	inside.send(openGood)
	<-arrived
	if err := r.server.Shutdown(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if rec := r.outcome(); rec.Err == nil {
		t.Error("recorded as done")
	}
}

// A connection that is named after the end of all tunnels is closed at once, and
// leaves its place.
func TestATunnelAfterTheEndCloses(t *testing.T) {
	tunnels := newTunnels(Limits{}.withDefaults())
	seat, full := tunnels.enter(t.Context(), runtime.Caller{}, runtime.Principal{ID: "a"}, intercepted)
	if full != nil {
		t.Fatal(full)
	}
	tunnels.closeAll()
	near, far := net.Pipe()
	own := &conn{Conn: near, raw: near, onClose: seat.leave}
	seat.hold(own)
	if _, err := far.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	tunnels.mu.Lock() // free
	defer tunnels.mu.Unlock()
	if len(tunnels.open) != 0 {
		t.Errorf("%d places are taken", len(tunnels.open))
	}
}
