package segment

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// Digest is the SHA-256 of a line, without its newline.
type Digest = [sha256.Size]byte

// Genesis is what the first record of a slot names as its predecessor. It holds
// the slot's name, so that one chain cannot be passed off as another's.
func Genesis(slot string) Digest { return sha256.Sum256([]byte("kimbap audit slot " + slot)) }

// Link is the fixed beginning of every line: what makes it one of a chain.
type Link struct {
	Sequence uint64
	Previous Digest // of the line before
	Kind     record.Kind
	Intent   uint64 // the record an outcome belongs to
}

// AppendLink begins a line: everything of it that is not the record's own.
func AppendLink(dst []byte, sequence uint64, previous Digest) []byte {
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendUint(dst, sequence, 10)
	dst = append(dst, `,"prev":"`...)
	dst = hex.AppendEncode(dst, previous[:])
	return append(dst, `",`...)
}

// ErrForm is a line that does not begin as every record does.
var ErrForm = errors.New("not a record of this ledger")

// ParseLink reads the beginning of a line, in the exact form that [AppendLink] and
// the encoder of records give it. It allocates nothing for the known kinds.
func ParseLink(line []byte) (Link, error) {
	var l Link
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	if !ok {
		return l, ErrForm
	}
	if l.Sequence, rest, ok = cutNumber(rest); !ok {
		return l, ErrForm
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"prev":"`)); !ok || len(rest) < 2*sha256.Size {
		return l, ErrForm
	}
	if _, err := hex.Decode(l.Previous[:], rest[:2*sha256.Size]); err != nil {
		return l, ErrForm
	}
	if rest, ok = bytes.CutPrefix(rest[2*sha256.Size:], []byte(`","kind":"`)); !ok {
		return l, ErrForm
	}
	for _, kind := range []record.Kind{record.KindIntent, record.KindOutcome, record.KindRefusal, record.KindEvent} {
		if after, found := bytes.CutPrefix(rest, []byte(kind+`",`)); found {
			l.Kind, rest = kind, after
			break
		}
	}
	if l.Kind == "" {
		return l, ErrForm
	}
	if l.Kind == record.KindOutcome {
		if rest, ok = bytes.CutPrefix(rest, []byte(`"intent":`)); !ok {
			return l, ErrForm
		}
		if l.Intent, _, ok = cutNumber(rest); !ok {
			return l, ErrForm
		}
	}
	return l, nil
}

// cutNumber takes a decimal number without leading zeros off the front.
func cutNumber(b []byte) (uint64, []byte, bool) {
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	if n == 0 || n > 1 && b[0] == '0' {
		return 0, b, false
	}
	value, err := strconv.ParseUint(string(b[:n]), 10, 64)
	return value, b[n:], err == nil
}
