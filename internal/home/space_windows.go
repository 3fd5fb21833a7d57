package home

import "errors"

// Space is not known on Windows: a disk that is full is noticed when it is.
func Space(string) (free, size uint64, err error) { return 0, 0, errors.ErrUnsupported }
