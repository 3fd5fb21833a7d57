package strictjson

import "fmt"

// Kind is what is wrong with a document.
type Kind uint8

// The zero Kind is none of them.
const (
	Invalid       Kind = iota + 1 // no JSON, or more than is read of it: Offset and What say where and why
	NotUTF8                       // it is in another encoding, or broken
	TrailingData                  // at Offset something follows the document
	DuplicateName                 // an object has two members called Name, at Offset for the second time
)

// Error is why a document is refused.
type Error struct {
	Kind   Kind
	Offset int    // in bytes
	What   string // of Invalid: never anything of the document
	Name   string // of DuplicateName: as the document has it, of any length
}

// Error implements error. It says nothing that stands in the document.
func (e *Error) Error() string {
	switch e.Kind {
	case NotUTF8:
		return "not UTF-8"
	case TrailingData:
		return fmt.Sprintf("more behind the document, at offset %d", e.Offset)
	case DuplicateName:
		return fmt.Sprintf("a name twice in one object, at offset %d", e.Offset)
	}
	return fmt.Sprintf("not valid JSON: %s at offset %d", e.What, e.Offset)
}
