package ca

import (
	"encoding/json"
	"errors"
	"os"

	"fairway/internal/identity"
	"fairway/internal/identity/ca/issued"
)

// DocumentNames are the names of the documents that an authority keeps.
func DocumentNames() []string { return []string{stateFile, rootsFile, revokedFile} }

// DocumentMode returns the permissions of a document's file.
func DocumentMode(name string) os.FileMode {
	if name == rootsFile {
		return 0o644
	}
	return 0o600
}

// CheckDocument returns an error if a document cannot be used.
func CheckDocument(name string, text []byte) error {
	switch name {
	case stateFile:
		var f kept
		if err := json.Unmarshal(text, &f); err != nil {
			return errors.New("it is damaged (not quoted: it holds a key)")
		}
		_, err := f.state()
		return err
	case revokedFile:
		return new(Revoked).read(text)
	}
	_, err := identity.Certificates(text)
	return err
}

// Issued returns the record of the certificates that have not ended, a line each.
func (r *Revocations) Issued() (out []string, err error) {
	err = r.issued.Each(r.now(), func(x issued.Certificate) { out = append(out, x.String()) })
	return out, err
}

// RestoreIssued adds lines to the record. Those that have ended, or are no lines, are left out.
func (r *Revocations) RestoreIssued(lines []string) error {
	for _, text := range lines {
		x, ok := issued.Parse(text)
		if !ok || !r.now().Before(x.Ends) {
			continue
		}
		if err := r.issued.Put(x); err != nil {
			return err
		}
	}
	return r.issued.Flush()
}
