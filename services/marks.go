package services

import "strings"

// leastMark is how long a placeholder is at least, in bytes.
const leastMark = 8

// marks are the placeholders of all services. Of the same one of several services it is
// that of the first.
type marks struct {
	of     map[string]string // placeholder → service
	list   []mark
	begins [1 << 10]bool // by [beginning], for the names of fields, of which few begin like one anywhere
}

type mark struct{ text, service string }

// add notes a placeholder.
func (m *marks) add(text, service string) {
	if _, taken := m.of[text]; taken || len(text) < leastMark {
		return
	}
	m.of[text] = service
	m.list = append(m.list, mark{text, service})
	m.begins[beginning(text)] = true
}

// within finds a placeholder that stands in a text, in whatever case.
func (m *marks) within(text string) (service string, ok bool) {
	for ; len(text) >= leastMark; text = text[1:] {
		if !m.begins[beginning(text)] {
			continue
		}
		for _, p := range m.list {
			if len(text) >= len(p.text) && strings.EqualFold(text[:len(p.text)], p.text) {
				return p.service, true
			}
		}
	}
	return "", false
}

// beginning is a number for the first three bytes of a text, in whatever case.
func beginning(text string) uint16 {
	a, b, c := text[0]|0x20, text[1]|0x20, text[2]|0x20
	return (uint16(a)<<5 ^ uint16(b)<<3 ^ uint16(c)) & (1<<10 - 1)
}
