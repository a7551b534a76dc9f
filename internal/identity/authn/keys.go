package authn

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"fairway/internal/identity/safefile"
	"fairway/internal/jwks"
)

// keyFile is a JSON Web Key Set in a file. It is read again when the file has another time or length; while it cannot
// be read, the keys before stay.
type keyFile struct {
	path string

	mu   sync.Mutex
	keys []jose.JSONWebKey
	time time.Time
	size int64
}

func (f *keyFile) known() []jose.JSONWebKey {
	keys, _ := f.read() // those before stay
	return keys
}

// renewed is a keySource's: known looked at the file already.
func (f *keyFile) renewed(context.Context) ([]jose.JSONWebKey, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys, true, nil
}

func (f *keyFile) read() ([]jose.JSONWebKey, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil {
		return f.keys, err
	}
	if info.ModTime().Equal(f.time) && info.Size() == f.size {
		return f.keys, nil
	}
	text, err := safefile.Read(f.path, jwks.MostBytes)
	if err != nil {
		return f.keys, err
	}
	keys, err := jwks.Parse(text)
	if err != nil {
		return f.keys, fmt.Errorf("%s: %w", f.path, err)
	}
	f.keys, f.time, f.size = keys, info.ModTime(), info.Size()
	return f.keys, nil
}
