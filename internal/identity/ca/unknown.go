package ca

import (
	"errors"
	"fmt"
	"time"

	shared "fairway/internal/state"
)

// ErrUnknown means that the authority does not know its root yet: the store that keeps it has not answered since the start. It never
// makes another root meanwhile.
var ErrUnknown = errors.New("the root of the mesh is not known")

// askAgain is how often an authority without a root asks for it. It asks at once when the store is watched again.
const askAgain = time.Second

// Unknown returns why the root is not known yet; nil: it is.
func (c *CA) Unknown() error { return c.current().unknown }

// wait puts the state of an authority without a root in force.
func (c *CA) wait(why error) {
	err := fmt.Errorf("%w: %w", ErrUnknown, why)
	c.opts.Log.Error("the root is not known: no certificates are issued until the store answers", "reason", why)
	c.put(&state{unknown: err})
}

// known asks for a root that is not known yet. It reports whether there is one.
func (c *CA) known() bool {
	if c.Unknown() == nil {
		return true
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	err := c.open()
	if err != nil && !errors.Is(err, shared.ErrAway) && err.Error() != c.reason {
		c.reason = err.Error()
		c.opts.Log.Error("the store answers, and its root cannot be used", "error", err)
		c.put(&state{unknown: fmt.Errorf("%w: %w", ErrUnknown, err)})
	}
	return err == nil
}

// copied returns the time of the copy that takes the place of the store; zero: none does.
func (c *CA) copied() time.Time {
	if c.opts.Shared == nil {
		return time.Time{}
	}
	return c.opts.Shared.Status().Copied
}

// checkCopy refuses a copy of the state that may be too old to issue certificates from: the root may have been replaced since. A
// replacement takes longer than the life of the longest certificate until another root signs, and as long again until the old one
// is not trusted any more.
func (c *CA) checkCopy(st *state) error {
	at := c.copied()
	if at.IsZero() {
		return nil
	}
	now := c.opts.Now()
	due := c.due(st)
	switch age := now.Sub(at); {
	case age > st.longest:
		return fmt.Errorf("%w, and this machine's copy of the root is of %s: copies older than the longest certificate (%s) are not used",
			shared.ErrAway, at.Format(time.RFC3339), st.longest)
	case age < -c.opts.Backdate:
		return fmt.Errorf("%w, and this machine's copy of the root is of %s, which is in the future: set the clock", shared.ErrAway,
			at.Format(time.RFC3339))
	case !due.IsZero() && !now.Before(due):
		return fmt.Errorf("%w, and a step of the root's replacement has been due since %s, which this machine's copy of %s does not have",
			shared.ErrAway, due.Format(time.RFC3339), at.Format(time.RFC3339))
	}
	return nil
}
