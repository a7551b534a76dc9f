package ca

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"fairway/internal/disk/watch"
	"fairway/internal/identity/ca/issued"
	shared "fairway/internal/state"
)

// Options of an authority. DefaultOptions returns Istio's defaults.
type Options struct {
	TrustDomain string // name that a self-made root carries; the identities are each grant's
	// Plugged is a folder with Istio's file names (ca-cert.pem, ca-key.pem, cert-chain.pem, root-cert.pem), or those of a kubernetes.io/tls
	// Secret (tls.crt, tls.key, ca.crt), and ca-crl.pem. If it has neither ca-cert.pem nor tls.crt, the authority makes its own root.
	// Empty: there is no such folder.
	Plugged string
	// State is the folder for a self-made root; several processes may share it. Empty: the root is kept in memory and lost with the
	// process.
	State string
	// Lease is that of the folder: its holder takes the steps of a root's replacement. nil: any process does.
	Lease *shared.FolderLease
	// Shared is a store that several control planes share, in place of the folder; nil: there is none.
	Shared     *shared.Shared
	DefaultTTL time.Duration // of certificates whose requests set none
	MaxTTL     time.Duration // the longest life of a certificate
	RootTTL    time.Duration // of a self-made root
	RenewRoot  float64       // a self-made root with less than this part of its life left gets a successor
	Backdate   time.Duration // certificates are valid from this long before they are made: clocks differ
	Now        func() time.Time
	Log        *slog.Logger
}

// DefaultOptions are Istio's defaults.
func DefaultOptions() Options {
	return Options{
		TrustDomain: "cluster.local",
		Plugged:     "./etc/cacerts",
		DefaultTTL:  24 * time.Hour,
		MaxTTL:      90 * 24 * time.Hour,
		RootTTL:     10 * 365 * 24 * time.Hour,
		RenewRoot:   0.2,
		Backdate:    2 * time.Minute,
		Now:         time.Now,
		Log:         slog.New(slog.DiscardHandler),
	}
}

// Validate returns an error if the options cannot work.
func (o Options) Validate() error {
	var errs []error
	if o.DefaultTTL <= 0 || o.MaxTTL < o.DefaultTTL {
		errs = append(
			errs,
			fmt.Errorf(
				"certificates of %s (DEFAULT_WORKLOAD_CERT_TTL) and at most %s (MAX_WORKLOAD_CERT_TTL): want both "+
					"positive, the second no less",
				o.DefaultTTL,
				o.MaxTTL,
			),
		)
	}
	if o.RootTTL <= o.DefaultTTL {
		errs = append(errs,
			fmt.Errorf("a root of %s (CITADEL_SELF_SIGNED_CA_CERT_TTL) behind certificates of %s: want it longer", o.RootTTL, o.DefaultTTL))
	}
	if o.RenewRoot < 0 || o.RenewRoot >= 1 {
		errs = append(errs, fmt.Errorf("a root renewed in the last %v of its life: want 0 to 1", o.RenewRoot))
	}
	if o.Backdate < 0 || o.Now == nil || o.Log == nil {
		errs = append(errs, errors.New("want a positive backdate, a clock and a log"))
	}
	return errors.Join(errs...)
}

// CA is an authority. Its methods may be called concurrently.
type CA struct {
	opts        Options
	keep        keeper
	revocations *Revocations // nil if there is no folder for them
	issued      issued.Record

	changing sync.Mutex // one change of the state at a time; what it waits for does not keep others from reading

	mu      sync.Mutex    // taken after changing
	revoked *Revoked      // as it was last read
	state   *state        // replaced as a whole, never changed
	changed chan struct{} // closed when the result of Roots, Revoked or Barred has changed
	reason  string        // why the root that the store has cannot be used, as it was logged last; taken with changing
}

// Open reads the plugged-in certificate, or else the self-made one of an earlier run, or else makes one. If one exists but cannot be used,
// that is an error: a new root would break every connection of the mesh.
func Open(o Options) (*CA, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := GuardState(o.State, o.Log); err != nil {
		return nil, err
	}
	c := &CA{opts: o, revoked: &Revoked{}, changed: make(chan struct{})}
	switch {
	case o.Shared != nil:
		c.keep.docs = o.Shared.Documents()
		c.revocations = NewSharedRevocations(o.Shared, o.Now, o.Log)
	case o.State != "":
		c.keep.docs = shared.Folder(o.State)
		if o.Lease != nil {
			c.keep.docs = o.Lease.Documents()
		}
		c.revocations = NewRevocations(o.State, o.Now)
	}
	if c.revocations != nil {
		c.issued = c.revocations.issued
	}
	if err := c.open(); errors.Is(err, shared.ErrAway) {
		c.wait(err)
	} else if err != nil {
		return nil, err
	}
	return c, nil
}

// open reads or makes the certificate, and reads the revocations.
func (c *CA) open() error {
	o := c.opts
	plugged, err := readPlugged(o.Plugged, o.Now())
	if err != nil {
		return fmt.Errorf("the authority's certificate in %s: %w", o.Plugged, err)
	}
	var st *state
	if plugged != nil {
		st, err = c.openPlugged(plugged)
	} else {
		st, err = c.openSelfMade()
	}
	if err == nil {
		err = c.checkCopy(st)
	}
	if err != nil {
		return err
	}
	if c.revocations != nil {
		v, err := c.revocations.List()
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.revoked = v
		c.mu.Unlock()
	}
	c.put(st)
	if err := c.tidyRevoked(true); err != nil && c.copied().IsZero() {
		return err
	}
	c.logStart(plugged)
	return nil
}

// logStart logs the authority's state at its start.
func (c *CA) logStart(plugged *plugged) {
	o := c.opts
	if at := c.copied(); !at.IsZero() {
		o.Log.Warn("the store of shared state is away: root and revocations are those of this machine's copy", "copied", at)
	}
	if plugged != nil {
		c.warnOfLists(c.state)
		o.Log.Info("certificate authority", "from", o.Plugged, "certificate", nameOf(plugged.signer.cert), "ends",
			plugged.signer.cert.NotAfter, "phase", c.state.phase(), "due", c.due(c.state))
		return
	}
	kept := o.State
	if o.Shared != nil {
		kept = o.Shared.String()
	}
	o.Log.Info("certificate authority", "from", "self-made root", "kept", kept, "ends", c.state.active.cert.NotAfter)
	if kept == "" {
		o.Log.Warn(
			"the self-made root is kept in memory: a restart makes another one, and every certificate of this one is " +
				"refused then; name a folder to keep it in",
		)
	}
}

func (c *CA) openSelfMade() (st *state, err error) {
	err = c.keep.locked(func() error {
		if st, err = c.keep.load(); err != nil || st != nil {
			return err
		}
		root, err := selfMade(c.opts.TrustDomain, c.opts.Now(), c.opts.RootTTL, c.opts.Backdate)
		if err != nil {
			return err
		}
		st = &state{active: root, longest: c.opts.DefaultTTL}
		return c.keep.save(st)
	})
	return st, err
}

// Roots returns the trusted roots as PEM: certificates, with the signing one's first, then CRLs if there are any.
func (c *CA) Roots() []byte { return c.current().bundle() }

// Pool is Roots for verifying. CRLs are not in it: Revoked knows them.
func (c *CA) Pool() *x509.CertPool { return pool(c.current().roots()) }

// Changed returns a channel that is closed when the result of Roots, Revoked or Barred changes. Call it before these.
func (c *CA) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

func (c *CA) current() *state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// put puts a state in force.
func (c *CA) put(st *state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(st)
}

// set puts a state in force; callers hold mu.
func (c *CA) set(st *state) {
	st = c.complete(st)
	same := c.state != nil && errors.Is(c.state.unknown, st.unknown) && bytes.Equal(c.state.bundle(), st.bundle()) &&
		equalCRL(c.state.lists, st.lists) && c.state.revoked == st.revoked
	c.state = st
	if !same {
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

// Status is the public state of an authority.
type Status struct {
	Phase   Phase     `json:"phase"`
	Unknown string    `json:"unknown,omitempty"` // why the root is not known; the rest is empty then
	Plugged bool      `json:"plugged"`           // the certificate comes from files that other programs write
	Due     time.Time `json:"due,omitzero"`      // when Step will do the next thing; zero: nothing is planned
	Signs   Cert      `json:"signs"`             // the certificate that signs
	Next    *Cert     `json:"next,omitempty"`    // the certificate that will sign next
	Roots   []Cert    `json:"roots"`             // all trusted roots
	Lists   []List    `json:"lists,omitempty"`
	// Unlisted is the issuer without a CRL because of which proxies get no CRLs of other issuers; empty: they get them.
	Unlisted string `json:"unlisted,omitempty"`
}

// List describes a CRL.
type List struct {
	Issuer     string    `json:"issuer"`
	Revoked    int       `json:"revoked"` // how many certificates
	NextUpdate time.Time `json:"nextUpdate,omitzero"`
}

// Cert describes a certificate.
type Cert struct {
	Subject   string    `json:"subject"`
	Serial    string    `json:"serial"` // hexadecimal
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
}

func describe(c *x509.Certificate) Cert {
	return Cert{Subject: c.Subject.String(), Serial: c.SerialNumber.Text(16), NotBefore: c.NotBefore, NotAfter: c.NotAfter}
}

// Status describes the authority now.
func (c *CA) Status() Status {
	st := c.current()
	if st.unknown != nil {
		return Status{Unknown: st.unknown.Error()}
	}
	out := Status{Phase: st.phase(), Plugged: st.plugged, Due: c.due(st), Signs: describe(st.active.cert)}
	if st.next != nil {
		next := describe(st.next.cert)
		out.Next = &next
	}
	for _, r := range st.roots() {
		out.Roots = append(out.Roots, describe(r))
	}
	for _, l := range st.lists {
		out.Lists = append(out.Lists, List{l.Issuer.String(), len(l.RevokedCertificateEntries), l.NextUpdate})
	}
	if i := st.unlisted(); i != nil {
		out.Unlisted = nameOf(i)
	}
	return out
}

// Run does the steps of rotations when they are due. It reads plugged-in files again when they change, and the state folder when another
// process has changed it. It returns when ctx ends.
func (c *CA) Run(ctx context.Context) error {
	const often = time.Minute // a file that was not valid yet may be by now
	files := watch.Follow(watch.Options{Files: c.opts.followed, Quiet: 100 * time.Millisecond, Every: often, Log: c.opts.Log})
	defer files.Stop()
	timer := time.NewTimer(often)
	defer timer.Stop()
	var elsewhere <-chan struct{}
	for {
		if c.opts.Shared != nil {
			elsewhere = c.opts.Shared.Changed()
		}
		wait := often
		if c.known() {
			c.reload()
			c.step()
		} else {
			wait = askAgain
		}
		if due := c.Status().Due; !due.IsZero() {
			wait = min(often, max(time.Second, due.Sub(c.opts.Now())))
		}
		timer.Reset(wait)
		select {
		case <-files.Changed():
		case <-elsewhere:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *CA) step() {
	if err := c.Step(); errors.Is(err, shared.ErrNotWriter) {
		if err := c.follow(); err != nil {
			c.opts.Log.Error("the shared state of the authority cannot be read; the last one stays in force", "error", err)
		}
	} else if err != nil {
		c.opts.Log.Error("the root's rotation does not go on; it is tried again", "error", err)
	}
	if err := c.followRevoked(); err != nil {
		c.opts.Log.Error("the list of revoked identities cannot be read; the last one stays in force, and reading is retried", "error", err)
	}
}
