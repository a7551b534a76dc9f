package entries

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/internal/kubeclient"
)

// Listener measures for how long control planes have been silent, by the Leases that they renew while they keep something. It does not
// trust other machines' clocks: it counts from when it last saw that a Lease had changed.
type Listener struct {
	leases    *kubeclient.Clients
	namespace string

	mu  sync.Mutex
	was map[string]renewed // by identity of the control plane
}

// renewed is a version of a Lease, and when that version was first seen.
type renewed struct {
	version string // empty: there is none
	since   time.Time
}

// NewListener returns a listener that has seen no control plane yet. The Leases are in the namespace.
func NewListener(leases *kubeclient.Clients, namespace string) *Listener {
	return &Listener{leases: leases, namespace: namespace, was: map[string]renewed{}}
}

// Only forgets all control planes that are not in some.
func (l *Listener) Only(some map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.was {
		if some[one] == 0 {
			delete(l.was, one)
		}
	}
}

// Gone reports whether a control plane has been silent for longer than it may be and the grace period. The listener counts from its own
// first look: so the first answer is always no.
func (l *Listener) Gone(ctx context.Context, controller string, grace time.Duration) (bool, error) {
	l.mu.Lock()
	was, known := l.was[controller]
	l.mu.Unlock()
	version := ""
	lease, err := l.leases.Leases(l.namespace).Get(ctx, leaseOf(controller), metav1.GetOptions{})
	switch {
	case err == nil:
		version = lease.ResourceVersion
	case !apierrors.IsNotFound(err):
		return false, err
	}
	if !known || was.version != version {
		was = renewed{version, time.Now()}
		l.mu.Lock()
		l.was[controller] = was
		l.mu.Unlock()
	}
	return time.Since(was.since) >= aliveFor+grace, nil
}

// DeleteKept deletes the Lease of a control plane that is gone, unless it has been renewed since.
func (l *Listener) DeleteKept(ctx context.Context, controller string) error {
	l.mu.Lock()
	version := l.was[controller].version
	l.mu.Unlock()
	if version == "" { // there is no Lease
		return nil
	}
	err := l.leases.Leases(l.namespace).Delete(ctx, leaseOf(controller), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{ResourceVersion: &version},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // or its control plane has renewed it
		return nil
	}
	return err
}
