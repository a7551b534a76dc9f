package state

import (
	"bytes"
	"compress/gzip"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"fairway/internal/identity/safefile"
)

// Sealer turns documents into records and back: compressed and, with a key, encrypted and authenticated (AES-256-GCM) under the record's
// name. With a key, a record that is not sealed is refused: a writer of the store cannot give the mesh another root.
type Sealer struct{ key cipher.AEAD }

// The first byte of a record.
const (
	plainRecord  = 1
	sealedRecord = 2
)

const keyBytes = 32

// NewSealer reads the key from a file: 32 random bytes in base64. Empty: records are not encrypted.
func NewSealer(file string) (Sealer, error) {
	if file == "" {
		return Sealer{}, nil
	}
	text, err := safefile.Read(file, 1<<10)
	if err != nil {
		return Sealer{}, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != keyBytes {
		return Sealer{}, fmt.Errorf("%s: want %d random bytes in base64, as `head -c 32 /dev/urandom | base64` prints them", file, keyBytes)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return Sealer{}, err
	}
	out, err := cipher.NewGCM(block)
	return Sealer{out}, err
}

// Encrypts reports whether there is a key.
func (s Sealer) Encrypts() bool { return s.key != nil }

// Seal makes the record of a document.
func (s Sealer) Seal(name string, content []byte) ([]byte, error) {
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	if _, err := z.Write(content); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	if s.key == nil {
		return append([]byte{plainRecord}, small.Bytes()...), nil
	}
	nonce := make([]byte, s.key.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return s.key.Seal(append([]byte{sealedRecord}, nonce...), nonce, small.Bytes(), []byte(name)), nil
}

// errDamaged means that a record cannot be read.
var errDamaged = errors.New("it is damaged; restore it with `pilot-discovery state restore`")

// Open returns the document of a record, of at most limit bytes.
func (s Sealer) Open(name string, record []byte, limit int64) ([]byte, error) {
	if len(record) == 0 {
		return nil, errDamaged
	}
	kind, body := record[0], record[1:]
	switch {
	case kind == plainRecord && s.key != nil:
		return nil, errors.New("it is not encrypted, so it is not trusted: another control plane has written it without the key of " +
			"--stateKeyFile")
	case kind == sealedRecord && s.key == nil:
		return nil, errors.New("it is encrypted: name the file with its key by --stateKeyFile")
	case kind == sealedRecord:
		n := s.key.NonceSize()
		if len(body) < n {
			return nil, errDamaged
		}
		var err error
		if body, err = s.key.Open(nil, body[:n], body[n:], []byte(name)); err != nil {
			return nil, errors.New("it is not encrypted with the key of --stateKeyFile, or was changed")
		}
	case kind != plainRecord:
		return nil, fmt.Errorf("its form %d is of a later version", kind)
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, errDamaged
	}
	out, err := io.ReadAll(io.LimitReader(z, limit+1))
	if err != nil {
		return nil, errDamaged
	}
	if int64(len(out)) > limit {
		return nil, fmt.Errorf("it has more than %d bytes", limit)
	}
	return out, nil
}
