package home

import "errors"

// Space is not known on Windows: a disk that is full is noticed when it is.
func Space(string) (free, size uint64, err error) { return 0, 0, errors.ErrUnsupported }

// Names is not limited on Windows.
func Names(string) (left uint64, limited bool) { return 0, false }
