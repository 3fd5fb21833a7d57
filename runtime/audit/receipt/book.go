package receipt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// Mark is a record that a sink has, and with it all before: its number and its hash.
type Mark struct {
	Sequence uint64
	Hash     segment.Digest
}

// Beginning is the mark of a sink that has nothing of a slot.
func Beginning(slot string) Mark { return Mark{Hash: segment.Genesis(slot)} }

// Entry is the mark of one sink.
type Entry struct {
	Sink string // its name; the beginning of a long one, when it was read from the file
	Mark Mark

	id string // stands for the whole name
}

// entrySize is that of an entry in the file, in bytes: one sector, so that a disk has the old
// one or the new one.
const entrySize = 512

// longestName is how much of a sink's name stands in an entry, in bytes of JSON.
const longestName = 200

// maxEntries keeps a file that is none of ours from being read.
const maxEntries = 4096

// Book is the file of one slot. One goroutine uses it, and only while it holds the lock of
// the slot; [Least] may be asked by anybody.
type Book struct {
	path, slot string

	entries []Entry
	damaged bool
	file    *os.File // nil: there is none, or it was not loaded
}

// ending is that of the name of a book.
const ending = ".sinks"

// In is the book of a slot. It does no IO.
func In(dir, slot string) *Book {
	return &Book{path: filepath.Join(dir, slot+ending), slot: slot}
}

// Path is where the file is.
func (b *Book) Path() string { return b.path }

// Load reads the file and keeps it open, until [Book.Close]. A file that is not there has no
// entries.
func (b *Book) Load() error {
	b.Close()
	b.entries, b.damaged = nil, false
	f, err := os.OpenFile(b.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if b.entries, b.damaged, err = read(f, b.slot); err != nil {
		return errors.Join(err, f.Close())
	}
	b.file = f
	return nil
}

// Damaged reports whether an entry could not be read: it may be that of any sink that has
// none.
func (b *Book) Damaged() bool { return b.damaged }

// Entries are those that could be read. They are the book's own.
func (b *Book) Entries() []Entry { return b.entries }

// Mark is that of a sink; false when it has none.
func (b *Book) Mark(sink string) (Mark, bool) {
	if i := b.place(sink); i >= 0 {
		return b.entries[i].Mark, true
	}
	return Mark{}, false
}

func (b *Book) place(sink string) int {
	id := identity(sink)
	for i, e := range b.entries {
		if e.id == id {
			return i
		}
	}
	return -1
}

// Put writes the mark of a sink that has an entry, in its place. It does not wait for the
// disk.
func (b *Book) Put(sink string, m Mark) error {
	i := b.place(sink)
	if i < 0 || b.file == nil {
		return fmt.Errorf("%s has no place for %s", b.path, sink)
	}
	b.entries[i].Mark = m
	_, err := b.file.WriteAt(b.entries[i].encode(b.slot, len(b.entries)), int64(i)*entrySize)
	return err
}

// Sync returns when the disk has the marks.
func (b *Book) Sync() error {
	if b.file == nil {
		return nil
	}
	return b.file.Sync()
}

// Replace makes these the entries, in one step, and returns when the disk has them. Without
// entries there is no file.
func (b *Book) Replace(entries []Entry) error {
	b.Close()
	if len(entries) == 0 {
		if err := os.Remove(b.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		b.entries, b.damaged = nil, false
		return system.SyncFolder(filepath.Dir(b.path))
	}
	var data []byte
	for i := range entries {
		if entries[i].id == "" {
			entries[i].id = identity(entries[i].Sink)
		}
		data = append(data, entries[i].encode(b.slot, len(entries))...)
	}
	if err := system.Replace(b.path, filepath.Base(b.path)+begun+"*", data, 0o600); err != nil {
		return err
	}
	if err := system.SyncFolder(filepath.Dir(b.path)); err != nil {
		return err
	}
	return b.Load()
}

// begun is in the name of a file that is to take the place of a book.
const begun = ".new-"

// Unfinished are the files that processes which were killed within [Book.Replace] have left
// in an audit folder, by the slot. Who holds its lock removes them: they are of no use, and no
// file of who goes on.
func Unfinished(dir string) (map[string][]string, error) {
	files, err := os.ReadDir(dir)
	out := map[string][]string{}
	for _, f := range files {
		slot, random, is := strings.Cut(f.Name(), ending+begun)
		if is && f.Type().IsRegular() && segment.ValidSlot(slot) && strings.Trim(random, "0123456789") == "" {
			out[slot] = append(out[slot], filepath.Join(dir, f.Name()))
		}
	}
	return out, err
}

// Close lets the file go. What was loaded stays known.
func (b *Book) Close() {
	if b.file != nil {
		_ = b.file.Close()
		b.file = nil
	}
}

// Least is the last record of a slot that no sink needs again; false when no sink has a mark
// there. Of a book that is damaged or cannot be read it is 0.
func Least(dir, slot string) (uint64, bool) {
	b := In(dir, slot)
	err := b.look()
	entries := b.entries
	if err == nil && !b.damaged && entries == nil { // there is no file: an empty one is damaged
		return 0, false
	}
	if err != nil || b.damaged || len(entries) == 0 {
		return 0, true
	}
	least := entries[0].Mark.Sequence
	for _, e := range entries {
		least = min(least, e.Mark.Sequence)
	}
	return least, true
}

// written is an entry as it stands in the file, in the order of its fields.
type written struct {
	Sink string `json:"sink"`
	ID   string `json:"id"`
	Of   int    `json:"of"` // entries of the file, so that one that was cut shows
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
	Sum  string `json:"sum"` // of the slot and all before
}

func (e *Entry) encode(slot string, of int) []byte {
	w := written{Sink: shortened(e.Sink), ID: e.id, Of: of, Seq: e.Mark.Sequence, Hash: hex.EncodeToString(e.Mark.Hash[:])}
	w.Sum = w.sum(slot)
	data, _ := json.Marshal(w) // of strings and numbers it cannot fail
	out := bytes.Repeat([]byte{' '}, entrySize)
	copy(out, data)
	out[entrySize-1] = '\n'
	return out
}

func (w written) sum(slot string) string {
	w.Sum = ""
	data, _ := json.Marshal(w)
	sum := sha256.Sum256(append([]byte("kimbap audit sink "+slot+"\n"), data...))
	return hex.EncodeToString(sum[:16])
}

// read reads what a file has. Whatever is not exactly an entry is damage.
func read(f *os.File, slot string) (entries []Entry, damaged bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	size := info.Size()
	if size == 0 || size > maxEntries*entrySize {
		return nil, true, nil
	}
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil {
		return nil, false, err
	}
	count := (len(data) + entrySize - 1) / entrySize
	for at := 0; at+entrySize <= len(data); at += entrySize {
		var w written
		decoder := json.NewDecoder(bytes.NewReader(data[at : at+entrySize]))
		decoder.DisallowUnknownFields()
		hash, bad := []byte(nil), decoder.Decode(&w)
		if bad == nil {
			hash, bad = hex.DecodeString(w.Hash)
		}
		again := slices.ContainsFunc(entries, func(e Entry) bool { return e.id == w.ID })
		if bad != nil || again || len(hash) != sha256.Size || w.Of != count || w.Sum != w.sum(slot) {
			continue
		}
		entries = append(entries, Entry{Sink: w.Sink, id: w.ID, Mark: Mark{w.Seq, segment.Digest(hash)}})
	}
	return entries, len(entries) != count, nil
}

// identity stands for a sink's name, which may be long.
func identity(sink string) string {
	sum := sha256.Sum256([]byte(sink))
	return hex.EncodeToString(sum[:16])
}

// shortened is the beginning of a name, for who looks into the file.
func shortened(name string) string {
	for {
		if data, _ := json.Marshal(name); len(data) <= longestName {
			return name
		}
		_, last := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-max(1, last)]
	}
}
