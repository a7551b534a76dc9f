package ca

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairway/internal/identity"
	"fairway/internal/identity/ca/issued"
	shared "fairway/internal/state"
)

// Revoked is an authority's revocations. It is a file of the State folder, and immutable once it was read.
type Revoked struct {
	Number       int64                `json:"number"`  // of the change, and of the CRLs that are made of it
	Changed      time.Time            `json:"changed"` // when
	Identities   []RevokedIdentity    `json:"identities,omitempty"`
	Certificates []RevokedCertificate `json:"certificates,omitempty"` // those on the CRLs, in order of their ends
}

// RevokedIdentity is an identity that is shut out, or was: its certificates from before At are not good any more.
type RevokedIdentity struct {
	ID       identity.ID `json:"identity"` // without a trust domain it is of any
	At       time.Time   `json:"at"`
	Restored time.Time   `json:"restored,omitzero"` // since when it is let in again with new proofs
	Reason   string      `json:"reason,omitempty"`
}

// RevokedCertificate is a certificate on a CRL.
type RevokedCertificate struct {
	Serial   string    `json:"serial"`             // hexadecimal
	Issuer   string    `json:"issuer,omitempty"`   // whose CRL it is on; empty: that of every issuer
	Identity string    `json:"identity,omitempty"` // the identity that it was issued to, if known
	At       time.Time `json:"at"`
	Ends     time.Time `json:"ends"` // when it may leave the CRL
	Reason   string    `json:"reason,omitempty"`
}

const (
	revokedFile  = "revoked.json"
	issuedFolder = "issued"
	// MaxRevoked is how many certificates the CRLs list at most: about 1 MB, which is sent with every issued certificate. The ones with the
	// latest end are kept.
	MaxRevoked = 20_000
	// mostShared is the same for a list in a store: its records are smaller.
	mostShared = 5_000
	// unrecordedLife is how long a certificate that is not in the record stays on the CRL: the longest that
	// MAX_WORKLOAD_CERT_TTL gives unless it is set.
	unrecordedLife = 90 * 24 * time.Hour
	// restoredMemory is how long the time of an identity that is let in again is kept; its certificates from before have ended long since.
	restoredMemory = 400 * 24 * time.Hour
)

// ErrUnrecorded is Revoke's answer to a serial number of no certificate that is on record.
var ErrUnrecorded = errors.New("no certificate that has not ended is recorded under this serial number")

// Revocations keeps the revocations in a folder, or in a store of several control planes; several processes may use it, and a running
// authority follows its changes.
type Revocations struct {
	docs   shared.Documents
	issued issued.Record
	most   int // certificates on the list
	now    func() time.Time
}

// NewRevocations uses a folder, an authority's State, which need not exist yet.
func NewRevocations(dir string, now func() time.Time) *Revocations {
	return &Revocations{shared.Folder(dir), issued.Files(filepath.Join(dir, issuedFolder)), MaxRevoked, now}
}

// NewSharedRevocations uses a store.
func NewSharedRevocations(in *shared.Shared, now func() time.Time, log *slog.Logger) *Revocations {
	return &Revocations{in.Documents(), issued.Shared(in, log), mostShared, now}
}

// ParseSerial reads a serial number as tools print them, and returns it as certificates are listed here.
func ParseSerial(s string) (string, error) { return issued.ParseSerial(s) }

// ParseRevoked reads the identity that a command names: spiffe://<trust domain>/ns/<namespace>/sa/<service account>, or
// <namespace>/<service account> of any trust domain.
func ParseRevoked(s string) (identity.ID, error) {
	if strings.Contains(s, "://") {
		return identity.Parse(s)
	}
	namespace, account, ok := strings.Cut(s, "/")
	id, err := identity.New("any", namespace, account)
	if !ok || err != nil {
		return identity.ID{}, fmt.Errorf(
			"identity %.80q: want <namespace>/<service account> or spiffe://<trust domain>/ns/<namespace>/sa/<service account>", s)
	}
	id.TrustDomain = ""
	return id, nil
}

// covers reports whether the named identity includes id.
func covers(named, id identity.ID) bool {
	return named == id || named.TrustDomain == "" && named.Namespace == id.Namespace && named.ServiceAccount == id.ServiceAccount
}

// List returns the current revocations.
func (r *Revocations) List() (*Revoked, error) {
	out := &Revoked{}
	text, err := r.docs.Read(revokedFile, mostState)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("revoked identities: %w", err)
	}
	if err := out.read(text); err != nil {
		return nil, fmt.Errorf("the list of revoked identities in %s is damaged: %w; restore the "+
			"file", r.docs.Place(revokedFile), err)
	}
	return out, nil
}

func (v *Revoked) read(text []byte) error {
	if err := json.Unmarshal(text, v); err != nil {
		return err
	}
	if v.Number < 0 || len(v.Certificates) > MaxRevoked {
		return fmt.Errorf("number %d with %d certificates: want none below 0, and at most %d", v.Number, len(v.Certificates), MaxRevoked)
	}
	for i, c := range v.Certificates {
		if s, err := ParseSerial(c.Serial); err != nil || s != c.Serial || c.At.IsZero() || c.At.Year() > 9999 {
			return fmt.Errorf("certificates[%d]: %.60q at %s", i, c.Serial, c.At)
		}
	}
	return nil
}

// RevokeIdentity revokes all certificates of an identity and bars it, whatever its proof, until RestoreIdentity. It returns how many
// certificates of it the CRLs name.
func (r *Revocations) RevokeIdentity(id identity.ID, reason string) (listed int, err error) {
	err = r.change(func(v *Revoked, now time.Time) error {
		v.Identities = slices.DeleteFunc(v.Identities, func(i RevokedIdentity) bool { return i.ID == id })
		v.Identities = append(v.Identities, RevokedIdentity{ID: id, At: now, Reason: reason})
		err := r.listShutOut(v, now)
		for _, c := range v.Certificates {
			if of, bad := identity.Parse(c.Identity); bad == nil && covers(id, of) {
				listed++
			}
		}
		return err
	})
	return listed, err
}

// RevokeSerial revokes one certificate.
func (r *Revocations) RevokeSerial(serial, reason string, unrecorded bool) error {
	serial, err := ParseSerial(serial)
	if err != nil {
		return err
	}
	return r.change(func(v *Revoked, now time.Time) error {
		one := RevokedCertificate{Serial: serial, At: now, Ends: now.Add(unrecordedLife), Reason: reason}
		found := unrecorded
		if err := r.issued.Each(now, func(x issued.Certificate) {
			if x.Serial == serial {
				found, one.Issuer, one.Identity, one.Ends = true, x.Issuer, x.ID.String(), x.Ends
			}
		}); err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%w: %s", ErrUnrecorded, serial)
		}
		v.list(r.most, one)
		return nil
	})
}

// RestoreIdentity lets an identity in again that comes with a token; its certificates from before stay revoked, unless
// certificates gives them back too.
func (r *Revocations) RestoreIdentity(id identity.ID, certificates bool) error {
	return r.change(func(v *Revoked, now time.Time) error {
		at := slices.IndexFunc(v.Identities, func(i RevokedIdentity) bool { return i.ID == id && (certificates || i.Restored.IsZero()) })
		if at < 0 {
			return fmt.Errorf("%s is not revoked", Name(id))
		}
		v.Identities[at].Restored = now
		if certificates {
			v.Identities = slices.Delete(v.Identities, at, at+1)
			v.Certificates = slices.DeleteFunc(v.Certificates, func(c RevokedCertificate) bool {
				of, err := identity.Parse(c.Identity)
				return err == nil && covers(id, of)
			})
		}
		return nil
	})
}

// RestoreSerial gives one certificate back; it is good again unless its identity is revoked.
func (r *Revocations) RestoreSerial(serial string) error {
	serial, err := ParseSerial(serial)
	if err != nil {
		return err
	}
	return r.change(func(v *Revoked, _ time.Time) error {
		left := slices.DeleteFunc(slices.Clone(v.Certificates), func(c RevokedCertificate) bool { return c.Serial == serial })
		if len(left) == len(v.Certificates) {
			return fmt.Errorf("the certificate with serial number %s is not revoked", serial)
		}
		v.Certificates = left
		return nil
	})
}

// Name is how an identity that a command named is shown.
func Name(id identity.ID) string {
	if id.TrustDomain == "" {
		return id.Namespace + "/" + id.ServiceAccount
	}
	return id.String()
}

// list adds certificates that are not there yet, in order of their ends.
func (v *Revoked) list(most int, some ...RevokedCertificate) {
	there := map[string]bool{}
	for _, c := range v.Certificates {
		there[c.Serial] = true
	}
	for _, c := range some {
		if !there[c.Serial] {
			there[c.Serial] = true
			v.Certificates = append(v.Certificates, c)
		}
	}
	slices.SortFunc(v.Certificates, func(a, b RevokedCertificate) int {
		return cmp.Or(a.Ends.Compare(b.Ends), cmp.Compare(a.Serial, b.Serial))
	})
	if over := len(v.Certificates) - most; over > 0 {
		v.Certificates = slices.Delete(v.Certificates, 0, over)
	}
}

// listShutOut revokes the recorded certificates of barred identities; a control plane may have issued some while the identity was being
// revoked.
func (r *Revocations) listShutOut(v *Revoked, now time.Time) error {
	out := v.shutOut()
	if len(out) == 0 {
		return nil
	}
	var found []RevokedCertificate
	err := r.issued.Each(now, func(x issued.Certificate) {
		for _, i := range out {
			if covers(i.ID, x.ID) {
				found = append(found, RevokedCertificate{x.Serial, x.Issuer, x.ID.String(), now, x.Ends, i.Reason})
			}
		}
	})
	v.list(r.most, found...)
	return err
}

func (v *Revoked) shutOut() (out []RevokedIdentity) {
	for _, i := range v.Identities {
		if i.Restored.IsZero() {
			out = append(out, i)
		}
	}
	return out
}

// change rewrites the file under its lock, if do changes anything.
func (r *Revocations) change(do func(v *Revoked, now time.Time) error) error {
	if err := r.docs.Locked(func() error { return r.changeLocked(do) }); err != nil {
		return fmt.Errorf("revoked identities: %w", err)
	}
	return nil
}

func (r *Revocations) changeLocked(do func(v *Revoked, now time.Time) error) error {
	v, err := r.List()
	if err != nil {
		return err
	}
	before, err := json.Marshal(v)
	if err != nil {
		return err
	}
	now := r.now().UTC().Truncate(time.Second)
	if err := do(v, now); err != nil {
		return err
	}
	if after, err := json.Marshal(v); err != nil || string(after) == string(before) {
		return err
	}
	v.Number, v.Changed = v.Number+1, now
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	if len(text) > mostState { // it could not be read again
		return fmt.Errorf(
			"revoked identities: %d bytes, at most %d are kept; restore identities that may return, or give shorter reasons",
			len(text),
			mostState,
		)
	}
	return r.docs.Write(revokedFile, text, 0o600)
}

// ended is how many certificates of the list may leave it. Each change of the list is sent to every agent, so they
// leave once they are half of it.
func (v *Revoked) ended(now time.Time) int {
	n := 0
	for n < len(v.Certificates) && !now.Before(v.Certificates[n].Ends) {
		n++
	}
	if 2*n < len(v.Certificates) {
		return 0
	}
	return n
}

// tidy removes ended certificates from the list, and adds those that barred identities got before the control plane read that they were
// barred.
func (r *Revocations) tidy() error {
	return r.change(func(v *Revoked, now time.Time) error {
		v.Certificates = slices.Delete(v.Certificates, 0, v.ended(now))
		v.Identities = slices.DeleteFunc(v.Identities,
			func(i RevokedIdentity) bool { return !i.Restored.IsZero() && now.Sub(i.At) > restoredMemory })
		return r.listShutOut(v, now)
	})
}
