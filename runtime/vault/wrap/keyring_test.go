package wrap_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
)

// secretService is a bus with one service on it, the keyring that desktops have
// (org.freedesktop.secrets): what kimbap's client asks of both, over a real socket.
type secretService struct {
	mu     sync.Mutex
	items  map[dbus.ObjectPath]map[string]string // attributes
	values map[dbus.ObjectPath][]byte
	broken bool // every answer is an error
	serial uint32
}

// startSecretService lets this process find it as its session bus.
func startSecretService(t *testing.T) *secretService {
	t.Helper()
	s := &secretService{items: map[dbus.ObjectPath]map[string]string{}, values: map[dbus.ObjectPath][]byte{}}
	path := filepath.Join(t.TempDir(), "bus")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+path)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			go s.serve(conn)
		}
	}()
	return s
}

// serve speaks the authentication of D-Bus, then its messages.
func (s *secretService) serve(conn net.Conn) {
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

func (s *secretService) messages(r *bufio.Reader, conn net.Conn) {
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
func (s *secretService) answer(m *dbus.Message) (body []any, fault string) {
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

// A system without a keyring says so and what to do instead, at once: it starts
// no bus of its own to ask.
func TestNoKeyringService(t *testing.T) {
	w := wrap.Keyring{Home: "/home/x", Env: []string{"DBUS_SESSION_BUS_ADDRESS=", "XDG_RUNTIME_DIR=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}}
	_, err := w.Keys(t.Context())
	refusedAs(t, err, runtime.ReasonKeyUnavailable)
	if e := runtime.AsError(err); !strings.Contains(e.Msg, "no keyring service") || !strings.Contains(e.Hint, "source: file") {
		t.Errorf("%q, %q", e.Msg, e.Hint)
	}
	_, err = w.Next(t.Context())
	refusedAs(t, err, runtime.ReasonKeyUnavailable)
}

// Two homes do not share a key, and a keyring that refuses is no empty one: a
// new key would be made beside the old one.
func TestKeyringOfTwoHomes(t *testing.T) {
	s := startSecretService(t)
	a, b := wrap.Keyring{Home: t.TempDir(), Env: os.Environ()}, wrap.Keyring{Home: t.TempDir(), Env: os.Environ()}
	if _, err := a.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := b.Keys(t.Context())
	refusedAs(t, err, runtime.ReasonNoMasterKey)
	s.mu.Lock()
	s.broken = true
	s.mu.Unlock()
	_, err = a.Keys(t.Context())
	e := runtime.AsError(err)
	if e.Reason != runtime.ReasonKeyUnavailable || strings.Contains(e.Msg, "hunter2") {
		t.Errorf("a keyring that refuses: %v", err)
	}
	left, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Keys(left); err == nil {
		t.Error("a caller who left got a key")
	}
}
