package ca

import (
	"bufio"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"fairway/internal/identity"
	"fairway/internal/identity/safefile"
)

// issued is the record of the certificates that have not ended. It is needed to revoke an identity, because a CRL lists serial numbers.
type issued interface {
	// put records a certificate; it may be written later.
	put(x record) error
	// flush returns once all of them are written.
	flush() error
	// each calls do with every certificate that has not ended.
	each(now time.Time, do func(record)) error
	// clean removes days that are over.
	clean(now time.Time) error
}

// issuedFiles has a file for each day, with a line for each certificate that ends then; several processes may append. A file is removed as
// a whole once its day is over, so the record has only certificates in use.
type issuedFiles struct{ dir string }

// record is a line: a certificate's data.
type record struct {
	serial string // hexadecimal
	issuer string // issuerTag
	ends   time.Time
	id     identity.ID
}

const (
	issuedFolder = "issued"
	issuedDay    = "2006-01-02" // the files' names, in UTC
	maxLine      = 4096
)

// issuerTag names an issuer within the state folder.
func issuerTag(rawName []byte) string {
	sum := sha256.Sum256(rawName)
	return hex.EncodeToString(sum[:8])
}

// add records a certificate.
func add(to issued, leaf *x509.Certificate, id identity.ID) error {
	return to.put(recordOf(leaf.SerialNumber.Text(16), leaf.RawIssuer, leaf.NotAfter, id))
}

func (issuedFiles) flush() error { return nil }

// put appends a certificate. The system writes it to the disk later: if a power cut loses a record, the control plane still refuses the
// certificate of a revoked identity by its time of issue.
func (i issuedFiles) put(x record) error {
	line := x.line() + "\n"
	path := filepath.Join(i.dir, x.day())
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := safefile.Folder(i.dir); err != nil {
			return err
		}
		f, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

// each calls do with every certificate that has not ended. Invalid lines, such as one that a crash cut, are skipped.
func (i issuedFiles) each(now time.Time, do func(record)) error {
	return i.days(func(path string, over time.Time) error {
		if !now.Before(over) {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(make([]byte, 0, maxLine), maxLine)
		for lines.Scan() {
			if r, ok := parseRecord(lines.Text()); ok && now.Before(r.ends) {
				do(r)
			}
		}
		return lines.Err()
	})
}

// clean removes the files of days that are over.
func (i issuedFiles) clean(now time.Time) error {
	return i.days(func(path string, over time.Time) error {
		if now.Before(over) {
			return nil
		}
		return os.Remove(path)
	})
}

// days calls do with each file, and the end of its day.
func (i issuedFiles) days(do func(path string, over time.Time) error) error {
	all, err := os.ReadDir(i.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, f := range all {
		if day, err := time.Parse(issuedDay, f.Name()); err == nil && f.Type().IsRegular() {
			errs = append(errs, do(filepath.Join(i.dir, f.Name()), day.Add(24*time.Hour)))
		}
	}
	return errors.Join(errs...)
}

func lineWith(ends time.Time, serial, issuer string, id identity.ID) string {
	return fmt.Sprintf("%d %s %s %s", ends.Unix(), serial, issuer, id)
}

func parseRecord(line string) (record, bool) {
	parts := strings.Split(line, " ")
	if len(parts) != 4 {
		return record{}, false
	}
	ends, err := strconv.ParseInt(parts[0], 10, 64)
	serial, err2 := ParseSerial(parts[1])
	id, err3 := identity.Parse(parts[3])
	if err != nil || err2 != nil || err3 != nil || len(parts[2]) > 16 {
		return record{}, false
	}
	return record{serial, parts[2], time.Unix(ends, 0), id}, true
}
