//go:build !unix

package upgrade

// CanReplace reports whether a program can be replaced while it runs.
const CanReplace = false

func likeParent(string) error { return nil }

// OwnLike does nothing on this system.
func OwnLike(string, string) error { return nil }
