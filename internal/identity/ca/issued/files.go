package issued

import (
	"bufio"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"fairway/internal/identity"
	"fairway/internal/identity/safefile"
)

// Record is the record of the certificates that have not ended. It is needed to revoke an identity, because a CRL lists serial numbers.
type Record interface {
	// Put records a certificate; it may be written later.
	Put(c Certificate) error
	// Flush returns once all of them are written.
	Flush() error
	// Each calls do with every certificate that has not ended.
	Each(now time.Time, do func(Certificate)) error
	// Clean removes days that are over.
	Clean(now time.Time) error
}

// Files returns a record in a folder, which need not exist yet. It has a file for each day, with a line for each certificate that ends
// then; several processes may append. A file is removed as a whole once its day is over, so the record has only certificates in use.
func Files(dir string) Record { return files{dir} }

type files struct{ dir string }

// Certificate is an issued certificate, a line of the record.
type Certificate struct {
	Serial string // hexadecimal
	Issuer string // Tag
	Ends   time.Time
	ID     identity.ID
}

const (
	dayForm = "2006-01-02" // the files' names, in UTC
	maxLine = 4096
)

// Tag names an issuer within the state folder.
func Tag(rawName []byte) string {
	sum := sha256.Sum256(rawName)
	return hex.EncodeToString(sum[:8])
}

// Of describes a certificate that was issued to an identity.
func Of(leaf *x509.Certificate, id identity.ID) Certificate {
	return Certificate{leaf.SerialNumber.Text(16), Tag(leaf.RawIssuer), leaf.NotAfter, id}
}

// Flush implements Record.
func (files) Flush() error { return nil }

// Put implements Record: it appends a certificate. The system writes it to the disk later: if a power cut loses a record, the control plane
// still refuses the certificate of a revoked identity by its time of issue.
func (i files) Put(c Certificate) error {
	line := c.String() + "\n"
	path := filepath.Join(i.dir, c.day())
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

// Each implements Record. Invalid lines, such as one that a crash cut, are skipped.
func (i files) Each(now time.Time, do func(Certificate)) error {
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
			if r, ok := Parse(lines.Text()); ok && now.Before(r.Ends) {
				do(r)
			}
		}
		return lines.Err()
	})
}

// Clean implements Record.
func (i files) Clean(now time.Time) error {
	return i.days(func(path string, over time.Time) error {
		if now.Before(over) {
			return nil
		}
		return os.Remove(path)
	})
}

// days calls do with each file, and the end of its day.
func (i files) days(do func(path string, over time.Time) error) error {
	all, err := os.ReadDir(i.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, f := range all {
		if day, err := time.Parse(dayForm, f.Name()); err == nil && f.Type().IsRegular() {
			errs = append(errs, do(filepath.Join(i.dir, f.Name()), day.Add(24*time.Hour)))
		}
	}
	return errors.Join(errs...)
}

// day returns the last day of the certificate.
func (c Certificate) day() string { return c.Ends.UTC().Format(dayForm) }

// String returns the certificate's line.
func (c Certificate) String() string {
	return fmt.Sprintf("%d %s %s %s", c.Ends.Unix(), c.Serial, c.Issuer, c.ID)
}

// Parse reads a line.
func Parse(line string) (Certificate, bool) {
	parts := strings.Split(line, " ")
	if len(parts) != 4 {
		return Certificate{}, false
	}
	ends, err := strconv.ParseInt(parts[0], 10, 64)
	serial, err2 := ParseSerial(parts[1])
	id, err3 := identity.Parse(parts[3])
	if err != nil || err2 != nil || err3 != nil || len(parts[2]) > 16 {
		return Certificate{}, false
	}
	return Certificate{serial, parts[2], time.Unix(ends, 0), id}, true
}

// ParseSerial reads a serial number as tools print them: hexadecimal digits in either case, with colons or 0x or
// without. It returns it as certificates are listed here.
func ParseSerial(s string) (string, error) {
	digits := strings.TrimPrefix(strings.ToLower(strings.ReplaceAll(s, ":", "")), "0x")
	n, ok := new(big.Int).SetString(digits, 16)
	if !ok || len(digits) > 40 || strings.ContainsAny(digits, "+-_") || n.Sign() <= 0 {
		return "", fmt.Errorf("serial number %.60q: want up to 40 hexadecimal digits", s)
	}
	return n.Text(16), nil
}
