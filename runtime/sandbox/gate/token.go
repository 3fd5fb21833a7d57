package gate

// kind is what a token is.
type kind byte

const (
	word     kind = iota + 1 // names, keywords, private names
	number                   // 1, 0x1f, 1_000n, .5
	text                     // 'a', "a"
	template                 // a piece of a template: `a${, }b${, }c`
	regex                    // /a/g
	punct                    // brackets and operators
)

// token is a piece of the code.
type token struct {
	kind       kind
	line       bool // a line ends before it
	start, end int
	match      int // of a bracket that opens: the index of the one that closes it
}

// follow says what a slash after a token is.
type follow byte

const (
	operator follow = iota // the token wants an operand: a slash starts a regular expression
	operand                // the token ends an operand: a slash divides
	unsure                 // only a parser knows
)

// afterWord says what a word leaves behind.
func afterWord(name string) follow {
	switch name {
	case "return", "typeof", "case", "do", "else", "in", "instanceof", "new", "void", "delete", "throw":
		return operator
	case "await", "yield", "of", "as", "satisfies", "extends", "is", "keyof", "readonly", "unique", "infer", "asserts", "default":
		return unsure
	}
	return operand
}

// continues reports whether a word at the start of a line may belong to the
// expression or the statement before it.
func continues(name string) bool {
	switch name {
	case "in", "instanceof", "of", "as", "satisfies", "is", "extends", "implements", "else", "while", "catch", "finally", "from":
		return true
	}
	return false
}

// prefixes reports whether a word may stand before another in one type or
// declaration, also over a line's end.
func prefixes(name string) bool {
	switch name {
	case "keyof", "readonly", "unique", "infer", "asserts", "abstract", "declare", "type", "namespace", "module", "async", "await", "yield":
		return true
	}
	return false
}
