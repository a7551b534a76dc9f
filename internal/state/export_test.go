package state

import "time"

// Take calls take for a control plane that has seen no other holder.
func (l *FolderLease) Take() error { return l.take(&seen{}, time.Now()) }

// Renew renews it.
func (l *FolderLease) Renew() error { return l.renew(time.Now()) }

// Release gives it up.
func (l *FolderLease) Release() { l.release() }

// Believe has it believe for long that it holds the lease.
func (l *FolderLease) Believe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Now().Add(time.Hour)
}
