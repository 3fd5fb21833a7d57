package rest_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"

	"github.com/kimbap-run/kimbap/services/servicestest"
)

// Content types of TLS (RFC 8446 section 5.1).
const (
	recordAlert     = 21
	recordHandshake = 22
	recordData      = 23
)

// records writes the upstream's side of TLS 1.3 by hand, once crypto/tls has
// shaken hands: what crypto/tls as a server never does, a hostile one may, such
// as padding, records without data, new keys between two answers, and half a
// record. Reading stays with crypto/tls.
type records struct {
	conn   net.Conn
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
	out    []byte // not sent yet
	random *rand.Rand
	wanted int // new keys of the other side, in this answer: crypto/tls takes 16 without data
}

// expand is HKDF-Expand-Label with no context (RFC 8446 section 7.1).
func expand(secret []byte, label string, n int) ([]byte, error) {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	return hkdf.Expand(sha256.New, secret, string(append(append(append(info, byte(len(label))), label...), 0)), n)
}

func newRecords(conn net.Conn, secret []byte, random *rand.Rand) (*records, error) {
	r := &records{conn: conn, random: random}
	return r, r.use(secret)
}

// use makes the keys of a traffic secret the ones in use.
func (r *records) use(secret []byte) error {
	key, err := expand(secret, "key", 16)
	if err != nil {
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	if r.aead, err = cipher.NewGCM(block); err != nil {
		return err
	}
	r.secret, r.seq = secret, 0
	r.iv, err = expand(secret, "iv", 12)
	return err
}

// seal adds one record of a kind, padded by zeros.
func (r *records) seal(kind byte, p []byte, padding int) {
	inner := append(append(bytes.Clone(p), kind), make([]byte, padding)...)
	head := []byte{recordData, 3, 3, 0, 0}
	binary.BigEndian.PutUint16(head[3:], uint16(len(inner)+r.aead.Overhead()))
	nonce := bytes.Clone(r.iv)
	for i, b := range binary.BigEndian.AppendUint64(nil, r.seq) {
		nonce[4+i] ^= b
	}
	r.seq++
	r.out = r.aead.Seal(append(r.out, head...), nonce, inner, head)
}

// data adds bytes of the answer, in records of any size, padded or not.
func (r *records) data(p []byte) {
	for len(p) > 0 {
		padding := 0
		if r.random.IntN(3) == 0 {
			padding = r.random.IntN(6000)
		}
		n := min(1+r.random.IntN(1<<r.random.IntN(15)), len(p), 1<<14-padding)
		r.seal(recordData, p[:n], padding)
		p = p[n:]
		if r.random.IntN(6) == 0 {
			r.noise()
		}
	}
}

// noise adds a record that is not an answer's.
func (r *records) noise() {
	switch r.random.IntN(3) {
	case 0:
		r.seal(recordData, nil, r.random.IntN(5000)) // nothing
	case 1:
		r.ticket()
	case 2:
		r.renew()
	}
}

// ticket adds one for a session (RFC 8446 section 4.6.1), which nobody asked for.
func (r *records) ticket() {
	r.ticketOf(1 + r.random.IntN(6000))
}

func (r *records) ticketOf(n int) {
	ticket := make([]byte, n)
	body := append([]byte{0, 0, 14, 16, 1, 2, 3, 4, 1, 9}, binary.BigEndian.AppendUint16(nil, uint16(len(ticket)))...)
	body = append(append(body, ticket...), 0, 0)
	r.seal(recordHandshake, append([]byte{4, 0, byte(len(body) >> 8), byte(len(body))}, body...), 0)
}

// renew says that new keys follow (RFC 8446 section 4.6.3), and uses them. At
// times it asks for new ones from the other side.
func (r *records) renew() {
	want := byte(0)
	if r.wanted < 8 {
		want = byte(r.random.IntN(2))
		r.wanted += int(want)
	}
	r.newKeys(want, r.random.IntN(9))
}

// renewPadded is renew in a record as long as one of data, renewAsking one that asks
// for new keys from the other side.
func (r *records) renewPadded(padding int) { r.newKeys(0, padding) }
func (r *records) renewAsking()            { r.newKeys(1, 0) }

func (r *records) newKeys(want byte, padding int) {
	r.seal(recordHandshake, []byte{24, 0, 0, 1, want}, padding)
	next, err := expand(r.secret, "traffic upd", sha256.Size)
	if err == nil {
		err = r.use(next)
	}
	if err != nil {
		panic(err) // cannot be: the lengths are fixed
	}
}

// farewell says that nothing more follows (RFC 8446 section 6.1).
func (r *records) farewell() { r.seal(recordAlert, []byte{1, 0}, r.random.IntN(40)) }

// flush sends all but the last keep bytes, in pieces that heed no record.
func (r *records) flush(keep int) error {
	for len(r.out) > keep {
		n := min(1+r.random.IntN(1<<r.random.IntN(17)), len(r.out)-keep)
		if _, err := r.conn.Write(r.out[:n]); err != nil {
			return err
		}
		r.out = r.out[n:]
	}
	return nil
}

// end says so, and waits for the other side to go: a socket that is closed with
// bytes unread, new keys say, takes back what was sent.
func (r *records) end() bool {
	r.farewell()
	if half, ok := r.conn.(*net.TCPConn); ok && r.flush(0) == nil && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, half)
	}
	return false
}

// secrets keeps what TLS says of its keys, for each connection.
type secrets struct{ of sync.Map } // net.Conn → *secret

// secret is what one connection said.
type secret struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer] for key logs.
func (s *secret) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// server returns the first traffic secret of the server.
func (s *secret) server() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.text.String()) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == "SERVER_TRAFFIC_SECRET_0" {
			return hex.DecodeString(words[2])
		}
	}
	return nil, errors.New("no traffic secret was logged")
}

// listen makes a server's configuration tell the keys of its connections.
func (s *secrets) listen(config *tls.Config) {
	config.MinVersion, config.SessionTicketsDisabled = tls.VersionTLS13, true // a ticket of crypto/tls would count
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		own, log := config.Clone(), &secret{}
		own.GetConfigForClient, own.KeyLogWriter = nil, log
		s.of.Store(hello.Conn, log)
		return own, nil
	}
}

// take returns the records of a connection, from its first on.
func (s *secrets) take(c *servicestest.Conn, random *rand.Rand) (*records, error) {
	secured, ok := c.Conn.(*tls.Conn)
	if !ok {
		return nil, errors.New("no TLS")
	}
	if suite := secured.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		return nil, errors.New("this machine chose " + tls.CipherSuiteName(suite))
	}
	log, ok := s.of.Load(secured.NetConn())
	if !ok {
		return nil, io.ErrUnexpectedEOF
	}
	first, err := log.(*secret).server()
	if err != nil {
		return nil, err
	}
	return newRecords(secured.NetConn(), first, random)
}
