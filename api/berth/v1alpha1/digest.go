package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Digest identifies a set of cluster names: SHA-256 over the sorted names, each followed by a zero
// byte, as 64 lowercase hex digits. Order and duplicates do not matter.
func Digest(names []string) string {
	if !slices.IsSorted(names) {
		names = slices.Sorted(slices.Values(names))
	}
	h := sha256.New()
	for i, name := range names {
		if i > 0 && name == names[i-1] {
			continue
		}
		h.Write([]byte(name))
		h.Write([]byte{0})
	}
	var sum [sha256.Size]byte
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], h.Sum(sum[:0]))
	return string(text[:])
}
