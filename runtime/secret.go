package runtime

import (
	"crypto/subtle"
	"fmt"
)

// Redacted is what every printing of a [Secret] shows, and what stands for one in a longer text.
const Redacted = "[secret]"

// Secret is a value that cannot be printed by accident: fmt with any verb,
// JSON, YAML and text encoders all show "[secret]". It holds a pointer, not a
// string, because fmt reaches through unexported string fields of a struct
// that has no method of its own.
//
// A Secret is immutable and safe for concurrent use. The zero Secret is empty.
type Secret struct{ value *string }

// NewSecret takes value into a Secret.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: &value}
}

// Reveal returns the value itself. Only the code that puts a credential on the
// wire, seals it or compares it calls this.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Empty reports whether there is no value.
func (s Secret) Empty() bool { return s.value == nil }

// Equal compares two secrets in time that depends on their lengths only.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String implements [fmt.Stringer].
func (s Secret) String() string { return Redacted }

// GoString implements [fmt.GoStringer].
func (s Secret) GoString() string { return Redacted }

// Format implements [fmt.Formatter], so that no verb (%d, %x, %#v, …) looks inside.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// MarshalText implements [encoding.TextMarshaler]; JSON, YAML and log encoders use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }
