// Package checkpoint is the signed statement of how far an audit trail goes: the
// last record of every writer, by number and hash, under an Ed25519 key of the
// home (RFC 8032). Whoever kept one elsewhere can tell later that a record was
// edited or that an end was cut off.
//
// It knows nothing of records and locks: package audit gathers the heads, and
// decides when to sign. It refuses a line whose signature does not fit its bytes;
// whether the key is the right one is for the caller to say.
//
// Start reading at [Sign] and [Parse]; [Book] is the file they are kept in.
package checkpoint

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Head is how far the ledger of one writer goes.
type Head struct {
	Slot     string `json:"slot"`
	Sequence uint64 `json:"seq"`
	Hash     string `json:"hash"` // hex SHA-256 of the record
	Cut      *Cut   `json:"cut,omitempty"`
}

// Cut says which records of a writer were given up because they were old enough.
type Cut struct {
	Segment  int    `json:"segment"` // the first file that is kept
	Sequence uint64 `json:"seq"`     // the last record before it
	Hash     string `json:"hash"`    // of that record
}

// Checkpoint is one statement.
type Checkpoint struct {
	Number uint64    `json:"checkpoint"` // from 1
	Prev   string    `json:"prev"`       // hex SHA-256 of the line before, "" for the first
	Time   time.Time `json:"time"`
	Heads  []Head    `json:"heads"` // by slot
	Key    string    `json:"key"`   // hex of the public key
}

// Signed is a checkpoint as it was signed: one line of JSON.
type Signed struct {
	Checkpoint
	Line []byte // without the newline
}

// Hash is the hex SHA-256 of the line, which the next checkpoint names.
func (s *Signed) Hash() string {
	sum := sha256.Sum256(s.Line)
	return hex.EncodeToString(sum[:])
}

// Head returns what the checkpoint says of a writer.
func (c *Checkpoint) Head(slot string) (Head, bool) {
	for _, h := range c.Heads {
		if h.Slot == slot {
			return h, true
		}
	}
	return Head{}, false
}

// purpose stands before the bytes that are signed, so that no signature made for
// something else can be passed off as one of a checkpoint.
const purpose = "kimbap audit checkpoint v1\n"

// opening is how every line begins.
const opening = `{"checkpoint":`

// marker is where the signature begins in a line; it is the last member.
const marker = `,"sig":"`

// ErrForm is a line that is no checkpoint.
var ErrForm = errors.New("not a checkpoint")

// ErrSignature is a checkpoint whose signature does not fit.
var ErrSignature = errors.New("the signature of the checkpoint does not fit")

// Sign makes the line of a checkpoint. It sets Key.
func Sign(c Checkpoint, key ed25519.PrivateKey) (Signed, error) {
	if len(key) != ed25519.PrivateKeySize {
		return Signed{}, errors.New("sign checkpoint: no key")
	}
	c.Key = hex.EncodeToString(key.Public().(ed25519.PublicKey))
	c.Time = c.Time.UTC().Truncate(time.Microsecond)
	plain, err := json.Marshal(c)
	if err != nil {
		return Signed{}, fmt.Errorf("sign checkpoint: %w", err)
	}
	signature := ed25519.Sign(key, append([]byte(purpose), plain...))
	line := append(plain[:len(plain)-1:len(plain)-1], marker...)
	line = base64.RawStdEncoding.AppendEncode(line, signature)
	return Signed{Checkpoint: c, Line: append(line, '"', '}')}, nil
}

// Parse reads a line and checks its signature against the key that it names
// itself. Its errors are [ErrForm] and [ErrSignature].
func Parse(line []byte) (Signed, error) {
	line = bytes.Clone(bytes.TrimRight(line, "\r\n"))
	body, closed := bytes.CutSuffix(line, []byte(`"}`)) // first, since the marker ends in a quote as well
	at := bytes.LastIndex(body, []byte(marker))
	if !closed || at < 0 || !bytes.HasPrefix(line, []byte(opening)) {
		return Signed{}, ErrForm
	}
	out := Signed{Line: line}
	plain := append(line[:at:at], '}')
	signature, err := base64.RawStdEncoding.Strict().DecodeString(string(body[at+len(marker):]))
	if err != nil || json.Unmarshal(plain, &out.Checkpoint) != nil || out.Number == 0 {
		return Signed{}, ErrForm
	}
	key, err := hex.DecodeString(out.Key)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return Signed{}, ErrForm
	}
	if !ed25519.Verify(key, append([]byte(purpose), plain...), signature) {
		return Signed{}, ErrSignature
	}
	return out, nil
}
