package proof

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// ProblemKind says what is wrong with a ledger.
type ProblemKind string

// The kinds of problems.
const (
	ProblemEdited  ProblemKind = "edited"          // a record's bytes are not those its successor was chained to
	ProblemRemoved ProblemKind = "removed"         // records are missing from the middle
	ProblemOrder   ProblemKind = "reordered"       // a record stands where another belongs, or twice
	ProblemSegment ProblemKind = "missing_segment" // a file of the slot is gone
	ProblemForm    ProblemKind = "malformed"       // a line that is no record
	ProblemCut     ProblemKind = "cut"             // records that a checkpoint names are missing from the end
	ProblemWriter  ProblemKind = "missing_writer"  // all of a slot that a checkpoint names is gone
	ProblemClaim   ProblemKind = "checkpoint"      // a checkpoint that is not what was signed, or not of this home
	ProblemAnchor  ProblemKind = "anchor"          // a file that shall vouch from outside, and is missing or holds no checkpoint
	ProblemForeign ProblemKind = "foreign_anchor"  // such a file with checkpoints under other keys than this home's alone
)

// Problem is one fault of a ledger.
type Problem struct {
	Kind     ProblemKind `json:"kind"`
	Slot     string      `json:"slot"`
	File     string      `json:"file"`
	Line     int         `json:"line"`     // from 1; 0: the whole file
	Sequence uint64      `json:"sequence"` // of the record at fault, 0 when it has none
	Msg      string      `json:"msg"`      // one sentence
}

// Anchor reports that only a file of checkpoints is not what it should be.
func (p Problem) Anchor() bool { return p.Kind == ProblemAnchor || p.Kind == ProblemForeign }

// Foreign reports that it is one of other homes, or of what was in the place of this one.
func (p Problem) Foreign() bool { return p.Kind == ProblemForeign }

// SlotReport is what verification found in one slot.
type SlotReport struct {
	Slot     string    `json:"slot"`
	First    uint64    `json:"first"` // number of the first record, 0 when there is none
	Last     uint64    `json:"last"`
	Records  uint64    `json:"records"`
	Segments int       `json:"segments"`
	Head     string    `json:"head"`                     // hex SHA-256 of the last record: note it elsewhere to anchor it
	Anchored uint64    `json:"anchored"`                 // up to this record a checkpoint vouches for the slot
	Outside  uint64    `json:"anchored_outside"`         // up to this one a checkpoint that was kept outside the home does
	GivenUp  uint64    `json:"given_up,omitempty"`       // records up to this one were removed by retention
	Torn     bool      `json:"torn,omitempty"`           // the last line has no end: a write in progress or cut by a crash
	Problems []Problem `json:"problems,omitempty"`       // the first thousand, and that the end is missing
	Found    int       `json:"problems_found,omitempty"` // how many there are
}

// Anchoring says how far something that was signed vouches for the ends.
type Anchoring string

// The words of Anchoring.
const (
	// NotAnchored means that records cut off the end of a slot, or a whole removed
	// slot, do not show: no signed checkpoint names the heads.
	NotAnchored Anchoring = "not anchored"
	// AnchoredHere means that checkpoints in the folder itself name the heads: who
	// can cut the ledger can cut those too.
	AnchoredHere Anchoring = "anchored in the home"
	// AnchoredOutside means that a checkpoint kept elsewhere agrees. How far it goes
	// is [SlotReport.Outside].
	AnchoredOutside Anchoring = "anchored outside the home"
)

// Report is the result of [Verify].
type Report struct {
	Slots      []SlotReport `json:"slots"`
	Anchor     Anchoring    `json:"anchor"`
	Checkpoint uint64       `json:"checkpoint,omitempty"` // number of the newest one
	At         time.Time    `json:"checkpoint_time,omitzero"`

	OutsideCheckpoint uint64    `json:"outside_checkpoint,omitempty"` // number of the newest that was kept outside the home
	OutsideAt         time.Time `json:"outside_checkpoint_time,omitzero"`

	Key      string    `json:"key,omitempty"`            // hex of the public key that signed
	Proven   bool      `json:"key_proven"`               // the vault holds that key
	Problems []Problem `json:"problems,omitempty"`       // of no slot that is there; of checkpoints the first thousand
	Found    int       `json:"problems_found,omitempty"` // how many of these there are
	OK       bool      `json:"ok"`                       // there is no problem
}

// First returns the first problem, the one to look at: one of an anchor's file only where the
// trail itself is as it was.
func (r *Report) First() (Problem, bool) {
	for _, s := range r.Slots {
		if len(s.Problems) > 0 {
			return s.Problems[0], true
		}
	}
	for _, p := range r.Problems {
		if !p.Anchor() {
			return p, true
		}
	}
	if len(r.Problems) > 0 {
		return r.Problems[0], true
	}
	return Problem{}, false
}

// behindOutside reports whether the home alone vouches for more than what was kept outside.
func (r *Report) behindOutside() bool {
	return slices.ContainsFunc(r.Slots, func(s SlotReport) bool { return s.Outside < s.Anchored })
}

// Who changes a ledger can make as many problems as it has lines.
const (
	maxProblems = 1000 // that a report holds, of each slot and of checkpoints
	maxShown    = 20   // to people, of each
)

// list writes the first problems of so many, and those that there are few of: an end, a slot
// or an anchor that is missing.
func list(b *strings.Builder, indent string, problems []Problem, found int) {
	for i, p := range problems {
		if i < maxShown || p.Kind == ProblemCut || p.Kind == ProblemWriter || p.Anchor() {
			fmt.Fprintf(b, "%s%s: %s:%d: %s\n", indent, p.Kind, p.File, p.Line, p.Msg)
			found--
		}
	}
	if found > 0 {
		fmt.Fprintf(b, "%sand %d more\n", indent, found)
	}
}

// String is the report for people.
func (r Report) String() string {
	var b strings.Builder
	for _, s := range r.Slots {
		outside := ""
		if r.Anchor == AnchoredOutside && s.Outside < s.Anchored {
			outside = fmt.Sprintf(" (outside the home to %d)", s.Outside)
		}
		fmt.Fprintf(&b, "%s: %s (%d to %d) in %s, anchored to %d%s, head %.16s\n", s.Slot, runtime.Count(s.Records, "record"), s.First, s.Last, runtime.Count(s.Segments, "file"), s.Anchored, outside, s.Head)
		list(&b, "  ", s.Problems, s.Found)
	}
	list(&b, "", r.Problems, r.Found)
	if r.Checkpoint > 0 {
		fmt.Fprintf(&b, "checkpoint %d of %s, key %.16s", r.Checkpoint, r.At.UTC().Format(time.RFC3339), r.Key)
		if !r.Proven {
			b.WriteString(" (not compared with the vault's)")
		}
		b.WriteString("\n")
	}
	switch {
	case !r.OK:
		if first, _ := r.First(); first.Anchor() {
			b.WriteString("not verified: " + first.Msg + "\n")
		} else {
			b.WriteString("the audit trail was changed\n")
		}
	case r.Anchor == NotAnchored:
		fmt.Fprintf(&b, "ok, %s: a tail that was cut off would not show\n", r.Anchor)
	case r.Anchor == AnchoredHere:
		fmt.Fprintf(&b, "ok, %s: who can write there could cut both; set audit.anchor\n", r.Anchor)
	case r.behindOutside():
		fmt.Fprintf(&b, "ok, %s by checkpoint %d of %s: who can write in the home could cut what came later\n", r.Anchor, r.OutsideCheckpoint, r.OutsideAt.UTC().Format(time.RFC3339))
	default:
		fmt.Fprintf(&b, "ok, %s\n", r.Anchor)
	}
	return b.String()
}
