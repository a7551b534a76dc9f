package ca

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"fairway/internal/identity"
	shared "fairway/internal/state"
)

// mostState limits each file of the state folder, in bytes; the longest is the list of revocations.
const mostState = 64 << 20

// state is an authority's whole state at one time. It is immutable.
type state struct {
	active   *signer
	next     *signer   // sent to all workloads, signs from switchAt on; nil outside a rotation
	switchAt time.Time // set with next
	retired  []retired // believed until their time
	longest  time.Duration
	crl      []*x509.RevocationList // the plugged-in ones
	plugged  bool
	unknown  error // why there is no signer yet; nil: there is one

	// complete adds the following.
	revoked *Revoked
	lists   []*x509.RevocationList // the CRLs that are in force: plugged-in ones, and own ones
	index   map[listed]bool        // the entries of lists
}

// retired is a root that no longer signs.
type retired struct {
	cert  *x509.Certificate
	until time.Time
	by    *signer // the issuer of its certificates, which may still revoke them; nil if it is no longer known
}

func (s *state) roots() []*x509.Certificate {
	if s.unknown != nil {
		return nil
	}
	lists := [][]*x509.Certificate{s.active.roots}
	if s.next != nil {
		lists = append(lists, s.next.roots)
	}
	for _, r := range s.retired {
		lists = append(lists, []*x509.Certificate{r.cert})
	}
	return union(lists...)
}

func (s *state) bundle() []byte {
	out := encode(s.roots()...)
	if s.unlisted() != nil {
		return out
	}
	for _, list := range s.lists {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: list.Raw})...)
	}
	return out
}

// unlisted returns an issuer that has certificates in use but no CRL, if other issuers have one; nil if there is none. A proxy with any CRL
// refuses every certificate of an issuer without one, so incomplete lists are only for the control plane.
func (s *state) unlisted() *x509.Certificate {
	if len(s.lists) == 0 {
		return nil
	}
	for _, i := range s.issuers() {
		if !slices.ContainsFunc(s.lists, func(l *x509.RevocationList) bool { return bytes.Equal(l.RawIssuer, i.RawSubject) }) {
			return i
		}
	}
	return nil
}

// issuers returns the certificates of all issuers that have certificates in use.
func (s *state) issuers() []*x509.Certificate {
	out := []*x509.Certificate{s.active.cert}
	if s.next != nil {
		out = append(out, s.next.cert)
	}
	for _, r := range s.retired {
		if r.by != nil {
			out = append(out, r.by.cert)
		} else {
			out = append(out, r.cert)
		}
	}
	return union(out)
}

// signers returns the issuers that have their keys here.
func (s *state) signers() []*signer {
	out := []*signer{s.active}
	if s.next != nil {
		out = append(out, s.next)
	}
	for _, r := range s.retired {
		if r.by != nil && !slices.ContainsFunc(out, func(o *signer) bool { return o.cert.Equal(r.by.cert) }) {
			out = append(out, r.by)
		}
	}
	return out
}

// The files of a State folder.
const (
	stateFile = "ca.json"       // for the owner alone: it holds keys
	rootsFile = "root-cert.pem" // for everybody: what to believe, for those who set up machines
)

// keeper keeps the state of a self-made authority; without documents it keeps nothing.
type keeper struct{ docs shared.Documents }

// kept is the file's form.
type kept struct {
	Active   keptSigner    `json:"active"`
	Next     *keptSigner   `json:"next,omitempty"`
	SwitchAt time.Time     `json:"switchAt,omitzero"`
	Retired  []keptRetired `json:"retired,omitempty"`
	Longest  string        `json:"longest"` // life of the longest certificate
	// Handover is set if certificates were plugged in after a self-made root had signed: the overlap goes on after a restart.
	Handover *handover `json:"handover,omitempty"`
}

// handover says when a plugged-in root takes over from the self-made one.
type handover struct {
	Root []byte    `json:"root"` // SHA-256 of the plugged-in root
	At   time.Time `json:"at"`
}

type keptSigner struct {
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

type keptRetired struct {
	Certificate string    `json:"certificate"`
	Key         string    `json:"key,omitempty"` // revokes; it signs no certificates any more
	Until       time.Time `json:"until"`
}

// locked runs do while no other process changes the state; it may run do again.
func (k keeper) locked(do func() error) error {
	if k.docs == nil {
		return do()
	}
	return k.docs.Locked(do)
}

// sole is locked for what one control plane alone does.
func (k keeper) sole(do func() error) error {
	if k.docs == nil {
		return do()
	}
	return k.docs.Sole(do)
}

// load returns nil if nothing is kept yet.
func (k keeper) load() (*state, error) {
	f, path, err := k.read()
	if f == nil || err != nil {
		return nil, err
	}
	st, err := f.state()
	if err != nil {
		return nil, fmt.Errorf("the kept root in %s: %w; restore it, or remove it to start over with another root", path, err)
	}
	return st, nil
}

// read returns nil if nothing is kept yet.
func (k keeper) read() (f *kept, path string, err error) {
	if k.docs == nil {
		return nil, "", nil
	}
	path = k.docs.Place(stateFile)
	text, err := k.docs.Read(stateFile, mostState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, path, nil
	}
	if err != nil {
		return nil, path, fmt.Errorf("the kept root: %w", err)
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, path, fmt.Errorf(
			"the kept root in %s is damaged (not quoted: it holds a key); restore it, or remove it to start over with another root",
			path)
	}
	return f, path, nil
}

func (k keeper) save(st *state) error {
	if k.docs == nil || st.plugged {
		return nil
	}
	f, err := st.kept()
	if err != nil {
		return err
	}
	if err := k.write(f); err != nil {
		return err
	}
	if err := k.docs.Write(rootsFile, st.bundle(), 0o644); err != nil {
		return fmt.Errorf("keep the root: %w", err)
	}
	return nil
}

func (k keeper) write(f kept) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := k.docs.Write(stateFile, text, 0o600); err != nil {
		return fmt.Errorf("keep the root: %w", err)
	}
	return nil
}

func (s *state) kept() (kept, error) {
	f := kept{SwitchAt: s.switchAt, Longest: s.longest.String()}
	var err error
	if f.Active, err = s.active.kept(); err != nil {
		return kept{}, err
	}
	if s.next != nil {
		next, err := s.next.kept()
		if err != nil {
			return kept{}, err
		}
		f.Next = &next
	}
	for _, r := range s.retired {
		one := keptRetired{Certificate: string(encode(r.cert)), Until: r.until}
		if r.by != nil && r.by.cert.Equal(r.cert) {
			by, err := r.by.kept()
			if err != nil {
				return kept{}, err
			}
			one.Key = by.Key
		}
		f.Retired = append(f.Retired, one)
	}
	return f, nil
}

func (s *signer) kept() (keptSigner, error) {
	key, err := s.key.reveal()
	if err != nil {
		return keptSigner{}, err
	}
	return keptSigner{string(encode(s.cert)), string(key)}, nil
}

func (f kept) state() (*state, error) {
	st := &state{switchAt: f.SwitchAt}
	var err error
	if st.longest, err = time.ParseDuration(f.Longest); err != nil {
		return nil, errors.New("longest is not a duration")
	}
	if st.active, err = f.Active.signer(); err != nil {
		return nil, err
	}
	if f.Next != nil {
		if st.next, err = f.Next.signer(); err != nil {
			return nil, err
		}
	}
	for _, r := range f.Retired {
		certs, err := identity.Certificates([]byte(r.Certificate))
		if err != nil {
			return nil, err
		}
		one := retired{cert: certs[0], until: r.Until}
		if r.Key != "" {
			if one.by, err = (keptSigner{r.Certificate, r.Key}).signer(); err != nil {
				return nil, err
			}
		}
		st.retired = append(st.retired, one)
	}
	return st, nil
}

func (f keptSigner) signer() (*signer, error) {
	certs, err := identity.Certificates([]byte(f.Certificate))
	if err != nil {
		return nil, err
	}
	k, err := readKey([]byte(f.Key))
	if err != nil {
		return nil, err
	}
	if err := samePublic(certs[0].PublicKey, k.signer().Public()); err != nil {
		return nil, err
	}
	return &signer{key: k, cert: certs[0], roots: certs[:1]}, nil
}
