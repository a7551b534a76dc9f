package ca

import (
	"errors"
	"time"
)

// Phase is the phase of a root's replacement.
type Phase string

// The phases, in their order.
const (
	Stable     Phase = "stable"     // one root, or what the plugged-in files say
	Introduced Phase = "introduced" // all workloads get the next root; the old one signs
	Retiring   Phase = "retiring"   // the next root signs; the old one is still trusted
)

// Errors of Rotate and Advance.
var (
	ErrRotating = errors.New("a rotation of the root is under way; wait until its next root signs")
	ErrPlugged  = errors.New("the root is plugged in: put the next one into the files")
	ErrStable   = errors.New("no rotation of the root is under way")
)

func (s *state) phase() Phase {
	switch {
	case s.next != nil:
		return Introduced
	case len(s.retired) > 0:
		return Retiring
	}
	return Stable
}

// change computes the next state from the one that all processes share, stores it and applies it. compute returns nil for no change, and
// may be called again.
func (c *CA) change(compute func(now time.Time, st *state) (*state, error)) error {
	return c.changeBy(c.keep.locked, compute)
}

// follow applies the state that another control plane has stored.
func (c *CA) follow() error {
	return c.change(func(time.Time, *state) (*state, error) { return nil, nil })
}

func (c *CA) changeBy(locked func(func() error) error, compute func(now time.Time, st *state) (*state, error)) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	if err := c.Unknown(); err != nil {
		return err
	}
	if st := c.current(); st.plugged {
		return c.apply(compute, st)
	}
	return locked(func() error {
		st := c.current()
		if kept, err := c.keep.load(); err != nil {
			return err
		} else if kept != nil {
			st = kept // another process may have moved on
		}
		return c.apply(compute, st)
	})
}

func (c *CA) apply(compute func(time.Time, *state) (*state, error), st *state) error {
	next, err := compute(c.opts.Now(), st)
	if err != nil {
		return err
	}
	if next == nil {
		c.put(st)
		return nil
	}
	if err := c.keep.save(next); err != nil {
		return err
	}
	before := c.current().phase()
	c.put(next)
	if after := next.phase(); after != before {
		c.opts.Log.Info("root rotation", "phase", after, "was", before, "signs", next.active.cert.SerialNumber.Text(16), "roots",
			len(next.roots()), "due", c.due(next))
	}
	return nil
}

// remember makes sure that the longest certificate is known before it is signed, since rotations wait for its end. It
// returns the state to sign with, and the life of the certificate: a shorter one while a longer one cannot be noted in a shared store.
func (c *CA) remember(life time.Duration) (*state, time.Duration, error) {
	st := c.current()
	if life <= st.longest {
		return st, life, nil
	}
	err := c.change(func(_ time.Time, st *state) (*state, error) {
		if life <= st.longest {
			return nil, nil
		}
		n := *st
		n.longest = life
		if n.next != nil { // certificates of the old root that begin now end later than planned
			n.switchAt = later(n.switchAt, c.opts.Now().Add(life))
		}
		return &n, nil
	})
	if err != nil && c.opts.Shared != nil {
		c.opts.Log.Warn("a certificate is shorter than was asked for: the store of shared state does not take note of it", "asked", life,
			"life", st.longest, "error", err)
		return st, st.longest, nil
	}
	return c.current(), life, err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Rotate introduces the next self-made root; Step and time do the rest.
func (c *CA) Rotate() error {
	return c.change(func(now time.Time, st *state) (*state, error) {
		if st.plugged {
			return nil, ErrPlugged
		}
		return c.introduce(now, st)
	})
}

func (c *CA) introduce(now time.Time, st *state) (*state, error) {
	if st.next != nil {
		return nil, ErrRotating
	}
	root, err := selfMade(c.opts.TrustDomain, now, c.opts.RootTTL, c.opts.Backdate)
	if err != nil {
		return nil, err
	}
	n := *st
	n.next, n.switchAt = root, now.Add(st.longest)
	return &n, nil
}

// Step does what is due by the clock. The next root begins to sign once every certificate from before its introduction has ended. The old
// root is removed once every certificate that it signed has ended. A self-made root near its end gets a successor. It may be called at any
// time.
func (c *CA) Step() error {
	return c.changeBy(c.keep.sole, func(now time.Time, st *state) (*state, error) {
		if due := c.due(st); due.IsZero() || now.Before(due) {
			return nil, nil
		}
		switch {
		case st.next != nil && !now.Before(st.switchAt):
			return switched(now, st), nil
		case earliest(st) != (time.Time{}) && !now.Before(earliest(st)):
			return forgotten(now, st), nil
		case !st.plugged && st.next == nil && !now.Before(c.renewAt(st)):
			return c.introduce(now, st)
		}
		return nil, nil
	})
}

// Advance takes the next step of the rotation under way before its time. The caller must know that every workload has got a certificate
// since the last step; otherwise connections fail.
func (c *CA) Advance() error {
	return c.change(func(now time.Time, st *state) (*state, error) {
		switch st.phase() {
		case Introduced:
			return switched(now, st), nil
		case Retiring:
			n := *st
			n.retired = nil
			return &n, nil
		}
		return nil, ErrStable
	})
}

// switched makes the next root sign; roots of the old one that the next does not share stay trusted for the longest life of a certificate.
func switched(now time.Time, st *state) *state {
	n := *st
	n.active, n.next, n.switchAt = st.next, nil, time.Time{}
	n.retired = retire(st, n.active, now.Add(st.longest))
	return &n
}

func retire(st *state, by *signer, until time.Time) []retired {
	var out []retired
	for _, r := range st.retired {
		if !has(by.roots, r.cert) {
			out = append(out, r)
		}
	}
	for _, root := range st.active.roots {
		if !has(by.roots, root) {
			out = append(out, retired{root, until, st.active})
		}
	}
	return out
}

func forgotten(now time.Time, st *state) *state {
	n := *st
	n.retired = nil
	for _, r := range st.retired {
		if now.Before(r.until) {
			n.retired = append(n.retired, r)
		}
	}
	return &n
}

func earliest(st *state) (out time.Time) {
	for _, r := range st.retired {
		if out.IsZero() || r.until.Before(out) {
			out = r.until
		}
	}
	return out
}

// renewAt returns when a self-made root gets a successor: late in its life, but early enough for the overlap.
func (c *CA) renewAt(st *state) time.Time {
	cert := st.active.cert
	grace := time.Duration(c.opts.RenewRoot * float64(cert.NotAfter.Sub(cert.NotBefore)))
	return cert.NotAfter.Add(-max(grace, 2*st.longest))
}

// due returns when Step does the next thing; zero: never, unless the state changes.
func (c *CA) due(st *state) time.Time {
	var out time.Time
	for _, t := range []time.Time{st.switchAt, earliest(st)} {
		if !t.IsZero() && (out.IsZero() || t.Before(out)) {
			out = t
		}
	}
	if !st.plugged && st.next == nil {
		if t := c.renewAt(st); out.IsZero() || t.Before(out) {
			out = t
		}
	}
	return out
}
