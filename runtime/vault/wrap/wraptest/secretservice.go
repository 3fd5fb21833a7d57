// Package wraptest has the keyring of a desktop, for tests of what is kept in one.
//
// It is imported by tests only. Start reading at [Listen].
package wraptest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"
)

// SecretService is a bus with one service on it, the keyring that desktops have
// (org.freedesktop.secrets): what kimbap's client asks of both, over a real socket. It is
// safe for concurrent use.
type SecretService struct {
	ln     net.Listener
	mu     sync.Mutex
	conns  []net.Conn
	items  map[dbus.ObjectPath]map[string]string // attributes
	values map[dbus.ObjectPath][]byte
	broken bool // every answer is an error
	serial uint32
}

// Listen starts one on a socket at path.
func Listen(path string) (*SecretService, error) {
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	s := &SecretService{ln: ln, items: map[dbus.ObjectPath]map[string]string{}, values: map[dbus.ObjectPath][]byte{}}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			go s.serve(conn)
		}
	}()
	return s, nil
}

// Address is what DBUS_SESSION_BUS_ADDRESS says of it.
func (s *SecretService) Address() string { return "unix:path=" + s.ln.Addr().String() }

// Close ends it and all connections to it.
func (s *SecretService) Close() {
	_ = s.ln.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
}

// Break makes every answer from now on an error, or puts an end to that.
func (s *SecretService) Break(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

// Accounts are the names of what it keeps, in order.
func (s *SecretService) Accounts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, has := range s.items {
		names = append(names, has["username"])
	}
	slices.Sort(names)
	return names
}

// serve speaks the authentication of D-Bus, then its messages.
func (s *SecretService) serve(conn net.Conn) {
	r := bufio.NewReader(conn)
	if _, err := r.ReadByte(); err != nil { // a zero byte, for credentials
		return
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		switch word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word {
		case "AUTH":
			if strings.TrimSpace(line) == "AUTH" {
				fmt.Fprint(conn, "REJECTED EXTERNAL\r\n")
			} else {
				fmt.Fprint(conn, "OK 0123456789abcdef0123456789abcdef\r\n")
			}
		case "BEGIN":
			s.messages(r, conn)
			return
		default:
			fmt.Fprint(conn, "ERROR\r\n")
		}
	}
}

func (s *SecretService) messages(r *bufio.Reader, conn net.Conn) {
	for {
		m, err := dbus.DecodeMessage(r)
		if err != nil {
			return
		}
		if m.Type != dbus.TypeMethodCall || m.Flags&dbus.FlagNoReplyExpected != 0 {
			continue
		}
		body, fault := s.answer(m)
		s.mu.Lock()
		s.serial++
		reply := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldReplySerial: dbus.MakeVariant(m.Serial()), dbus.FieldSender: dbus.MakeVariant("org.freedesktop.secrets"),
		}, Body: body}
		if fault != "" {
			reply.Type, reply.Body = dbus.TypeError, []any{"hunter2"}
			reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant(fault)
		}
		if len(reply.Body) > 0 {
			reply.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(reply.Body...))
		}
		var wire bytes.Buffer
		err = reply.EncodeTo(&wire, binary.LittleEndian)
		if err == nil {
			binary.LittleEndian.PutUint32(wire.Bytes()[8:], s.serial) // which the package sets for its own messages only
			_, err = conn.Write(wire.Bytes())
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// answer is what the bus or the keyring says to a call, or the name of an error.
func (s *SecretService) answer(m *dbus.Message) (body []any, fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	member, _ := m.Headers[dbus.FieldMember].Value().(string)
	path, _ := m.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	const login, noPrompt = dbus.ObjectPath("/org/freedesktop/secrets/collection/login"), dbus.ObjectPath("/")
	if s.broken && member != "Hello" {
		return nil, "org.freedesktop.Secret.Error.IsLocked"
	}
	switch member {
	case "Hello":
		return []any{":1.1"}, ""
	case "Get":
		return []any{dbus.MakeVariant([]dbus.ObjectPath{login})}, ""
	case "OpenSession":
		return []any{dbus.MakeVariant(""), dbus.ObjectPath("/org/freedesktop/secrets/session/1")}, ""
	case "Unlock":
		return []any{m.Body[0], noPrompt}, ""
	case "Close":
		return nil, ""
	case "SearchItems":
		found := []dbus.ObjectPath{}
		for path, has := range s.items {
			if maps.Equal(has, m.Body[0].(map[string]string)) {
				found = append(found, path)
			}
		}
		return []any{found}, ""
	case "CreateItem":
		properties := m.Body[0].(map[string]dbus.Variant)
		has := properties["org.freedesktop.Secret.Item.Attributes"].Value().(map[string]string)
		at := dbus.ObjectPath(fmt.Sprintf("/org/freedesktop/secrets/collection/login/%d", len(s.items)+1000*int(s.serial)))
		for path, other := range s.items { // replace: true
			if maps.Equal(has, other) {
				at = path
			}
		}
		s.items[at], s.values[at] = has, slices.Clone(m.Body[1].([]any)[2].([]byte))
		return []any{at, noPrompt}, ""
	case "GetSecret":
		secret := struct {
			Session    dbus.ObjectPath
			Parameters []byte
			Value      []byte
			Type       string
		}{m.Body[0].(dbus.ObjectPath), []byte{}, s.values[path], "text/plain"}
		return []any{secret}, ""
	case "Delete":
		delete(s.items, path)
		delete(s.values, path)
		return []any{noPrompt}, ""
	}
	return nil, "org.freedesktop.DBus.Error.UnknownMethod"
}
