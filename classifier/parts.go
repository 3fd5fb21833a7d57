package classifier

// NamedParts is a body in parts (multipart/form-data, RFC 7578) that kimbap has written
// itself, of which the heads of the parts are known and nothing else. What decides may not be
// the name of one of them, to no reader: then it is not there, as in a form without that
// field. A GraphQL request in parts could be any. The heads are not changed.
func NamedParts(heads []byte) *Body { return &Body{parts: heads, inParts: true, given: true} }

// partNamed refuses a part that some reader would call by the name that a pointer begins
// with, or take for a piece of what has that name.
func (b *Body) partNamed(tokens []string) *Error {
	if len(tokens) == 0 {
		return nil
	}
	w := partWatch{sought: sought{words: tokens[:1], wordsOnly: true, pieces: true}}
	if w.look(b.parts) != nil || w.asks() != nil {
		return badInput(reasonAmbiguousParameter, "a part of the body is called %s, or could be read so, and what decides the action is not read in parts", shown(tokens[0]))
	}
	return nil
}
