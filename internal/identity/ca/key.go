package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
)

const hidden = "[hidden]"

// key is a private key that prints, logs and encodes as a word. It keeps the signer in a function, so that even a printer that reads
// unexported fields without calling a method cannot find it.
type key struct{ signer func() crypto.Signer }

func newKey() (key, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return key{}, fmt.Errorf("make a key: %w", err)
	}
	return keyOf(k), nil
}

func keyOf(s crypto.Signer) key { return key{func() crypto.Signer { return s }} }

// String and its like hide the key.
func (key) String() string               { return hidden }
func (key) GoString() string             { return hidden }
func (key) Format(f fmt.State, _ rune)   { fmt.Fprint(f, hidden) }
func (key) LogValue() slog.Value         { return slog.StringValue(hidden) }
func (key) MarshalText() ([]byte, error) { return []byte(hidden), nil }
func (key) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// reveal is the key as PEM, for the file that keeps it and nothing else.
func (k key) reveal() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.signer())
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// readKey reads PEM in the three forms that tools write. Its errors never quote the text.
func readKey(text []byte) (key, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var k any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			k, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			k, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			k, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return key{}, errors.New("the private key is encrypted; give it without a passphrase")
		default:
			continue // EC PARAMETERS
		}
		if err != nil {
			return key{}, fmt.Errorf("a block %s that is none", block.Type)
		}
		signer, ok := k.(crypto.Signer)
		if !ok {
			return key{}, errors.New("the private key cannot sign; want ECDSA, RSA or Ed25519")
		}
		return keyOf(signer), checkPublic(signer.Public())
	}
	return key{}, errors.New("no private key in PEM")
}

// checkPublic returns an error unless certificates are issued for a key of this kind and size.
func checkPublic(public any) error {
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		if size := k.Curve.Params().BitSize; size < 256 {
			return fmt.Errorf("an EC key of %d bits; want P-256, P-384 or P-521", size)
		}
	case *rsa.PublicKey:
		if size := k.N.BitLen(); size < 2048 || size > 8192 {
			return fmt.Errorf("an RSA key of %d bits; want 2048 to 8192", size)
		}
	case ed25519.PublicKey:
	default:
		return fmt.Errorf("a public key of type %T; want RSA, EC or Ed25519", public)
	}
	return nil
}
