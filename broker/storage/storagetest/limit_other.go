//go:build !unix

package storagetest

import "errors"

// limitsFiles reports whether limitFiles is possible.
const limitsFiles = false

// limitFiles is not possible here.
func limitFiles(uint64) error { return errors.ErrUnsupported }
