package state

import "time"

// Take is take with a lease that nobody else holds.
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
