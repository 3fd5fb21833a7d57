package record

import "time"

// AppendText is the encoder of all text.
func AppendText(dst []byte, s string, limit int) []byte { return appendText(dst, s, limit) }

// AppendTime is the encoder of all times.
func AppendTime(dst []byte, t time.Time) []byte { return appendTime(dst, t) }
