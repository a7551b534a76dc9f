package snapshot

import "testing"

// NewPair makes a certificate and its key for tests.
func NewPair(t testing.TB) (chain, key []byte) {
	t.Helper()
	p, err := newPair()
	if err != nil {
		t.Fatal(err)
	}
	return p.chain, p.key
}
