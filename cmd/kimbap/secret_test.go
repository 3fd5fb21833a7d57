package main

import "testing"

// What an editor of Windows or a terminal puts around a key is not taken for a part of it.
func TestSecretsAreOneLineOfText(t *testing.T) {
	for text, want := range map[string]string{
		"key": "key", "key\n": "key", "key\r\n": "key", "\ufeffkey\r\n": "key", "\tpass word ": "\tpass word ", "\ufeff": "",
	} {
		if got, err := secretFrom([]byte(text)); err != nil || got.Reveal() != want {
			t.Errorf("%q: %q, %v", text, got.Reveal(), err)
		}
	}
	for text, want := range map[string]string{
		"key\n\n": "the secret has more than one line", "\xff\xfek\x00e\x00y\x00\r\x00\n\x00": "the secret is not plain text: it may be in UTF-16",
	} {
		if _, err := secretFrom([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
