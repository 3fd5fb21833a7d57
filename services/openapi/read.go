package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/kimbap-run/kimbap/services"
)

// MaxDocument is the most that is read of a document and of what it refers to,
// in bytes.
const MaxDocument = mostJSON

// The limits of what is read, in bytes and files. YAML takes twenty times its
// size in memory while it is read.
const (
	mostJSON  = 64 << 20
	mostYAML  = 24 << 20
	mostFiles = 500
)

// file is one document while it is read.
type file struct {
	name string // as fs.FS calls it
	root any    // map[string]any, []any, string, bool, json.Number, nil
}

// library holds the files of one import: the document and what it refers to.
type library struct {
	files  fs.FS
	open   map[string]*file
	beside bool  // members beside the $ref of a schema count, as since OpenAPI 3.1
	left   int64 // bytes that may still be read
	visits int   // of schemas, in all
	listed int   // of what operations list, and may share
}

func newLibrary(files fs.FS) *library {
	return &library{files: files, open: map[string]*file{}, left: mostJSON}
}

// file reads one file of the folder, once.
func (l *library) file(name string) (*file, error) {
	if f, ok := l.open[name]; ok {
		return f, nil
	}
	if len(l.open) == mostFiles {
		return nil, fmt.Errorf("it refers to more than %d files", mostFiles)
	}
	if l.files == nil {
		return nil, errors.New("the document stands alone")
	}
	data, err := l.bytes(name)
	if err == nil {
		err = l.hold(name, data)
	}
	return l.open[name], err
}

// hold keeps a file that was read.
func (l *library) hold(name string, data []byte) error {
	root, err := parse(data)
	if err == nil {
		l.open[name] = &file{name, root}
	}
	return err
}

func (l *library) bytes(name string) ([]byte, error) {
	f, err := l.files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, l.left+1))
	if err != nil {
		return nil, err
	}
	if l.left -= int64(len(data)); l.left < 0 {
		l.left = 0
		return nil, fmt.Errorf("the document has more than %d MiB", mostJSON>>20)
	}
	return data, nil
}

// parse reads JSON, or YAML, as one tree.
func parse(data []byte) (any, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	text := bytes.TrimLeft(data, " \t\r\n")
	isJSON := len(text) > 0 && text[0] == '{'
	if isJSON {
		root, err := parseJSON(text)
		if err == nil || len(data) > mostYAML || text[len(text)-1] == '}' && !mayBeYAML(err) || errors.Is(err, services.ErrTwice) {
			return root, err
		}
	}
	if len(data) > mostYAML {
		return nil, fmt.Errorf("the YAML has more than %d MiB: convert it to JSON", mostYAML>>20)
	}
	root, err := services.YAMLValue(data)
	if err != nil {
		return nil, err
	}
	if _, ok := root.(map[string]any); !ok {
		return nil, errors.New("it holds no object")
	}
	return root, nil
}

func parseJSON(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var root any
	if err := dec.Decode(&root); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not valid JSON: text follows the document")
	}
	return root, twice(data)
}

// mayBeYAML tells a text in YAML's flow style, which starts with a brace too,
// from JSON that is only too deep.
func mayBeYAML(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) && syntax.Error() != "exceeded max depth"
}
