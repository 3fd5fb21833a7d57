package proof

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// Ends holds the last record of every slot under dir against the newest checkpoint in
// dir, and nothing else: it takes as long for a large trail as for a small one, so that
// whoever asks how things stand can be told. It finds what a witness would not sign;
// only [Verify] says that a trail is whole. It changes nothing and takes no lock.
func Ends(dir string) ([]Problem, error) {
	book := checkpoint.In(dir)
	newest, found, err := book.Last() // before the records: what it names is there by now
	if errors.Is(err, checkpoint.ErrForm) || errors.Is(err, checkpoint.ErrSignature) {
		return []Problem{{Kind: ProblemClaim, File: filepath.Base(book.Path), Msg: errors.Unwrap(err).Error()}}, nil
	}
	if err != nil || !found {
		return nil, err
	}
	named := claims{}
	for _, h := range newest.Heads {
		named.add(h, fmt.Sprintf("checkpoint %d in %s", newest.Number, filepath.Base(book.Path)), false)
	}
	there, err := segment.Slots(dir)
	if err != nil {
		return nil, fmt.Errorf("look at the ends of the audit trail: %w", err)
	}
	problems := named.missing(there)
	for _, h := range newest.Heads {
		if !slices.Contains(there, h.Slot) {
			continue
		}
		v := verifier{SlotReport: SlotReport{Slot: h.Slot}, claims: named.of(h.Slot)}
		if err := v.end(filepath.Join(dir, h.Slot)); err != nil {
			return nil, fmt.Errorf("look at the end of audit slot %s: %w", h.Slot, err)
		}
		problems = append(problems, v.Problems...)
	}
	return problems, nil
}

// end compares the last record of a slot with the one claim that there is of it.
func (v *verifier) end(dir string) error {
	line, at, err := lastRecord(dir)
	if err != nil {
		return err
	}
	if line != nil {
		link, err := segment.ParseLink(line)
		if err != nil {
			v.problem(ProblemForm, at, "the last line of %s is %v", at.file, err)
			return nil
		}
		v.Last, at.seq = link.Sequence, link.Sequence
		sum := sha256.Sum256(line)
		for _, c := range v.claims.records[at.seq] {
			if c.hash != hex.EncodeToString(sum[:]) {
				v.problem(ProblemEdited, at, "record %d is not the one that %s names", at.seq, c.source)
			}
		}
	}
	v.tail(at)
	return nil
}

// lastRecord is the last whole line of a slot, nil when it has none. A segment that was
// just begun may have none yet.
func lastRecord(dir string) (line []byte, at place, err error) {
	numbers, err := segment.List(dir)
	if err != nil {
		return nil, at, err
	}
	for _, number := range slices.Backward(numbers) {
		at.file = segment.Name(number)
		line, err := segment.LastLineOf(filepath.Join(dir, at.file))
		if line != nil || err != nil && !errors.Is(err, os.ErrNotExist) { // retention removes the oldest ones
			return line, at, err
		}
	}
	return nil, at, nil
}
