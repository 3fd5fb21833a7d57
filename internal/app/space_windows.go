package app

import "errors"

// diskSpace is not known on Windows: a disk that is full is noticed when it is.
func diskSpace(string) (free, size uint64, err error) { return 0, 0, errors.ErrUnsupported }
