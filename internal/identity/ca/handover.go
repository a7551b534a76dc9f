package ca

import (
	"bytes"
	"crypto/sha256"
	"time"
)

// openPlugged makes a plugged-in certificate the signer: at once if there was no other, and after the overlap if a self-made root is kept,
// because its certificates are still in use. To skip the overlap, remove the kept root.
func (c *CA) openPlugged(p *plugged) (st *state, err error) {
	fresh := &state{active: p.signer, crl: p.crl, plugged: true, longest: c.opts.DefaultTTL}
	err = c.keep.locked(func() error {
		f, _, err := c.keep.read()
		if err != nil {
			return err
		}
		if f == nil {
			st = fresh
			return nil
		}
		old, err := c.keep.load()
		if err != nil {
			return err
		}
		now, root := c.opts.Now(), fingerprint(p)
		if f.Handover == nil || !bytes.Equal(f.Handover.Root, root) {
			f.Handover = &handover{root, now.Add(max(old.longest, c.opts.DefaultTTL))}
			if err := c.keep.write(*f); err != nil {
				return err
			}
		}
		st = handedOver(now, old, fresh, f.Handover.At)
		return nil
	})
	return st, err
}

// handedOver returns the state, at this time, of the overlap that ends with only the plugged-in signer.
func handedOver(now time.Time, old, fresh *state, at time.Time) *state {
	n := *old
	n.crl, n.plugged, n.next, n.switchAt = fresh.crl, true, fresh.active, at
	if now.Before(at) {
		return &n
	}
	n.active, n.next, n.switchAt = fresh.active, nil, time.Time{}
	n.retired = retire(old, fresh.active, at.Add(old.longest))
	return forgotten(now, &n)
}

func fingerprint(p *plugged) []byte {
	sum := sha256.Sum256(p.signer.roots[0].Raw)
	return sum[:]
}

// keepHandover notes that certificates were plugged in while the self-made root signed.
func (c *CA) keepHandover(p *plugged, at time.Time) error {
	return c.keep.locked(func() error {
		f, _, err := c.keep.read()
		if f == nil || err != nil {
			return err
		}
		f.Handover = &handover{fingerprint(p), at}
		return c.keep.write(*f)
	})
}
