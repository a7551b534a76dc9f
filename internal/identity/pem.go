package identity

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
)

// Certificates reads every certificate of a PEM text. Other blocks, and text between blocks, are skipped. A text without a certificate is
// an error, and so is a certificate that cannot be read. A damaged block is an error, too: if a root were left out unnoticed, connections
// would fail later.
func Certificates(text []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != certificateBlock {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(out)+1, err)
		}
		out = append(out, c)
	}
	if begun := begins(text); len(out) < begun {
		return nil, fmt.Errorf("%d of %d certificates cannot be read: a PEM block is damaged or cut off, or its last line does not end",
			begun-len(out), begun)
	}
	if len(out) == 0 {
		return nil, errors.New("no certificate in PEM")
	}
	return out, nil
}

// begins returns how many lines begin a certificate.
func begins(text []byte) int {
	const line = "-----BEGIN " + certificateBlock + "-----"
	n := bytes.Count(text, []byte("\n"+line))
	if bytes.HasPrefix(text, []byte(line)) {
		n++
	}
	return n
}

// hidden is the text of a Private when it is printed, logged or encoded.
const hidden = "[hidden]"

// Private is a key in PEM that prints, logs and encodes as a fixed word. The zero Private holds nothing.
type Private struct{ pem func() []byte } // behind a function, so that nothing that walks a value finds it

// MakePrivate wraps the text of a key, which must not be changed afterwards.
func MakePrivate(text []byte) Private { return Private{func() []byte { return text }} }

// PEM returns the key itself: only for code that gives it to its proxy. The caller must not change it.
func (p Private) PEM() []byte {
	if p.pem == nil {
		return nil
	}
	return p.pem()
}

func (Private) String() string   { return hidden }
func (Private) GoString() string { return hidden }

// Format hides the key from every verb.
func (Private) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) } // a writer of fmt's own does not fail

// LogValue hides the key from logs.
func (Private) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText hides the key from JSON.
func (Private) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Intermediates returns the certificates above the leaf. shown has the leaf first.
func Intermediates(shown []*x509.Certificate) *x509.CertPool {
	between := x509.NewCertPool()
	for _, above := range shown[1:] {
		between.AddCert(above)
	}
	return between
}
