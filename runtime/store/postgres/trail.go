package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
)

// AddLines keeps lines of a home's trail, each whole, in one statement: all or none. One
// that is there already stays as it is. A line is JSON, and so a text as it stands.
func (db *DB) AddLines(ctx context.Context, home, slot string, lines [][]byte) error {
	digests, texts := make([][]byte, len(lines)), make([]string, len(lines))
	for i, line := range lines {
		line = bytes.TrimSuffix(line, []byte("\n"))
		sum := sha256.Sum256(line)
		digests[i], texts[i] = sum[:], escaped(string(line))
	}
	_, err := engine{db}.Exec(ctx, "keep the trail", `INSERT INTO trail (home, slot, digest, line)
		SELECT ?1, ?2, digest, line FROM unnest(CAST(?3 AS BYTEA[]), CAST(?4 AS TEXT[])) WITH ORDINALITY AS new (digest, line, place)
		ORDER BY place ON CONFLICT DO NOTHING`, []any{home, slot, digests, texts})
	return err
}
