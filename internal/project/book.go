package project

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Book is what a home remembers of the projects that its owner has trusted, by their
// folders.
type Book map[string]entry

type entry struct {
	Hash     string `json:"hash"`
	Commands bool   `json:"commands,omitempty"`
}

// ReadBook reads the book; where there is no file, nothing is trusted.
func ReadBook(file string) (Book, error) {
	out := Book{}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out, err
}

// Bytes is the book as it is kept in its file.
func (b Book) Bytes() ([]byte, error) {
	data, err := json.MarshalIndent(b, "", "  ")
	return append(data, '\n'), err
}

// Mark says on the project whether it is trusted as it is now.
func (b Book) Mark(p *Project) {
	if e, ok := b[p.Dir]; ok && e.Hash == p.Hash {
		p.Trusted, p.Commands = true, e.Commands
	}
}

// Has reports whether a project of that folder was trusted, as it is now or was.
func (b Book) Has(folder string) bool { _, has := b[folder]; return has }

// Trust remembers the project as it is now; with commands its services may start
// programs.
func (b Book) Trust(p *Project, commands bool) { b[p.Dir] = entry{Hash: p.Hash, Commands: commands} }

// Nearest is the project of a folder, or of the nearest one above it, as it was
// trusted: its files may have gone since. Without one, folder is "".
func (b Book) Nearest(dir string) (folder, hash string) {
	for at := dir; ; at = filepath.Dir(at) {
		folder = filepath.Join(at, ".kimbap")
		if e, ok := b[folder]; ok {
			return folder, e.Hash
		}
		if at == filepath.Dir(at) {
			return "", ""
		}
	}
}

// Distrust forgets a project, by its folder.
func (b Book) Distrust(folder string) { delete(b, folder) }
