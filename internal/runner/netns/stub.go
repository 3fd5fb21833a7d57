package netns

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// ttl is how long an answer may be remembered, in seconds. It stays true for as
// long as the network is there.
const ttl = 300

// ednsSize is the largest datagram we say we take, in bytes (DNS flag day 2020).
const ednsSize = 1232

// localhost is the one name that is not a host elsewhere (RFC 6761, section 6.3).
const localhost = "localhost"

// Answer answers one query (RFC 1035), nil when it is none. Every name has an
// IPv4 address and no other record, so there is nothing to ask of anybody else,
// and nothing of a query that leaves. One over which something panics is answered by
// nobody, and ends nothing else.
func (n *Names) Answer(query []byte) (answer []byte) {
	defer func() {
		if recover() != nil {
			answer = nil
		}
	}()
	var p dnsmessage.Parser
	head, err := p.Start(query)
	if err != nil || head.Response {
		return nil
	}
	reply := dnsmessage.Header{ID: head.ID, Response: true, OpCode: head.OpCode, RecursionDesired: head.RecursionDesired, RecursionAvailable: true}
	questions, err := p.AllQuestions()
	switch {
	case head.OpCode != 0:
		reply.RCode = dnsmessage.RCodeNotImplemented
		return pack(reply, nil, nil, false)
	case err != nil || len(questions) != 1:
		reply.RCode = dnsmessage.RCodeFormatError
		return pack(reply, nil, nil, false)
	}
	var body dnsmessage.ResourceBody
	reply.RCode, body = n.look(questions[0])
	return pack(reply, &questions[0], body, extended(&p))
}

// look finds what is known of a question; a nil body says that the name is
// there, without a record of this kind.
func (n *Names) look(q dnsmessage.Question) (dnsmessage.RCode, dnsmessage.ResourceBody) {
	if q.Class != dnsmessage.ClassINET && q.Class != dnsmessage.ClassANY {
		return dnsmessage.RCodeRefused, nil
	}
	name := canonical(q.Name.String())
	switch {
	case name == localhost || strings.HasSuffix(name, "."+localhost):
		return dnsmessage.RCodeSuccess, loopback(q.Type)
	case isReverse(name):
		return n.reverse(name, q.Type)
	case name == "": // the root has servers, and none to speak to
		return dnsmessage.RCodeSuccess, nil
	case !hostName(name):
		return dnsmessage.RCodeNameError, nil
	case q.Type != dnsmessage.TypeA && q.Type != dnsmessage.TypeALL:
		return dnsmessage.RCodeSuccess, nil
	}
	addr, ok := n.Address(name)
	if !ok {
		return dnsmessage.RCodeServerFailure, nil
	}
	return dnsmessage.RCodeSuccess, &dnsmessage.AResource{A: addr.As4()}
}

func loopback(kind dnsmessage.Type) dnsmessage.ResourceBody {
	switch kind {
	case dnsmessage.TypeA, dnsmessage.TypeALL:
		return &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}
	case dnsmessage.TypeAAAA:
		return &dnsmessage.AAAAResource{AAAA: netip.IPv6Loopback().As16()}
	}
	return nil
}

// isReverse reports whether a name stands for an address. Others of arpa are of hosts, as those
// of a home's network are (RFC 8375).
func isReverse(name string) bool {
	return slices.ContainsFunc([]string{".in-addr.arpa", ".ip6.arpa"}, func(zone string) bool { return strings.HasSuffix("."+name, zone) })
}

// reverse answers which name an address stands for (RFC 1035, section 3.5).
func (n *Names) reverse(name string, kind dnsmessage.Type) (dnsmessage.RCode, dnsmessage.ResourceBody) {
	parts := strings.Split(strings.TrimSuffix(name, ".in-addr.arpa"), ".")
	if len(parts) != 4 {
		return dnsmessage.RCodeNameError, nil
	}
	addr, err := netip.ParseAddr(parts[3] + "." + parts[2] + "." + parts[1] + "." + parts[0])
	if err != nil {
		return dnsmessage.RCodeNameError, nil
	}
	host, ok := n.Name(addr)
	if !ok {
		return dnsmessage.RCodeNameError, nil
	}
	pointed, err := dnsmessage.NewName(host + ".")
	if err != nil || kind != dnsmessage.TypePTR {
		return dnsmessage.RCodeSuccess, nil
	}
	return dnsmessage.RCodeSuccess, &dnsmessage.PTRResource{PTR: pointed}
}

// extended reports whether a query, whose questions were read, speaks EDNS (RFC
// 6891); then the answer has to.
func extended(p *dnsmessage.Parser) bool {
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return false
	}
	for {
		h, err := p.AdditionalHeader()
		if err != nil {
			return false
		}
		if h.Type == dnsmessage.TypeOPT {
			return true
		}
		if p.SkipAdditional() != nil {
			return false
		}
	}
}

func pack(head dnsmessage.Header, q *dnsmessage.Question, body dnsmessage.ResourceBody, edns bool) []byte {
	m := dnsmessage.Message{Header: head}
	if q != nil {
		m.Questions = []dnsmessage.Question{*q}
		if body != nil {
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: ttl}, Body: body}}
		}
	}
	if edns {
		opt := dnsmessage.Resource{Body: &dnsmessage.OPTResource{}}
		if opt.Header.SetEDNS0(ednsSize, dnsmessage.RCodeSuccess, false) == nil {
			m.Additionals = []dnsmessage.Resource{opt}
		}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// serveDatagrams answers queries until conn is closed.
func (n *Names) serveDatagrams(conn net.PacketConn) {
	buf := make([]byte, 4<<10)
	for {
		size, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer := n.Answer(buf[:size]); answer != nil {
			_, _ = conn.WriteTo(answer, from)
		}
	}
}

// What a client of the name server by TCP may take: its time for a query, and
// how many there may be.
const (
	queryTime    = 10 * time.Second
	queryClients = 64
)

// acceptPause is how long nobody new is taken after that went wrong, as without a descriptor.
const acceptPause = 100 * time.Millisecond

// serveStreams answers queries over TCP (RFC 7766) until ln is closed, and ends the
// connections that are there then.
func (n *Names) serveStreams(ln net.Listener) {
	ctx, end := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer end()
	free := make(chan struct{}, queryClients)
	for {
		c, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		select {
		case free <- struct{}{}:
			clients.Go(func() { defer func() { <-free }(); n.serveStream(ctx, c) })
		default:
			_ = c.Close()
		}
	}
}

// serveStream answers the queries of one connection until it ends, or ctx.
func (n *Names) serveStream(ctx context.Context, c net.Conn) {
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	for {
		_ = c.SetDeadline(time.Now().Add(queryTime))
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		answer := n.Answer(query)
		if answer == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// authority is the host and port that a connection to a local address means.
func (n *Names) authority(local net.Addr) (string, bool) {
	to, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return "", false
	}
	name, ok := n.Name(to.Addr())
	if !ok {
		return "", false
	}
	return net.JoinHostPort(name, strconv.Itoa(int(to.Port()))), true
}
