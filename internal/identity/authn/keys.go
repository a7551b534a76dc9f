package authn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// keyFile is a JSON Web Key Set in a file. It is read again when the file has another time or length; while it cannot be read, the keys before stay.
type keyFile struct {
	path string

	mu   sync.Mutex
	keys []jose.JSONWebKey
	time time.Time
	size int64
}

// VerifySignature gives the payload of a token that one of the keys signed.
func (f *keyFile) VerifySignature(_ context.Context, token string) ([]byte, error) {
	keys, err := f.read()
	if len(keys) == 0 {
		return nil, err
	}
	var allowed []jose.SignatureAlgorithm
	for _, a := range algorithms {
		allowed = append(allowed, jose.SignatureAlgorithm(a))
	}
	signed, err := jose.ParseSignedCompact(token, allowed)
	if err != nil {
		return nil, err
	}
	if len(signed.Signatures) != 1 {
		return nil, errors.New("want one signature")
	}
	id := signed.Signatures[0].Header.KeyID
	for _, k := range keys {
		if id != "" && k.KeyID != "" && k.KeyID != id {
			continue
		}
		if payload, err := signed.Verify(k); err == nil {
			return payload, nil
		}
	}
	return nil, fmt.Errorf("none of the %d keys in %s signed it (its key is %q)", len(keys), f.path, id)
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
	text, err := os.ReadFile(f.path)
	if err != nil {
		return f.keys, err
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		return f.keys, fmt.Errorf("%s is no JSON Web Key Set: %w", f.path, err)
	}
	var public []jose.JSONWebKey
	for _, k := range set.Keys {
		if k.Valid() && k.IsPublic() && (k.Use == "" || k.Use == "sig") {
			public = append(public, k)
		}
	}
	if len(public) == 0 {
		return f.keys, fmt.Errorf("%s holds no public key for signatures", f.path)
	}
	f.keys, f.time, f.size = public, info.ModTime(), info.Size()
	return f.keys, nil
}
