package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"fairway/internal/disk"
	"fairway/internal/identity/safefile"
	"fairway/internal/printable"
	"fairway/internal/servers"
)

// The files of a folder's lease.
const (
	leaseFile = ".writer"       // says who has it; the time of its change is that of the last renewal
	aliveFile = ".writer-alive" // locked by its holder for as long as that process lives
)

// FolderLease has one of the control planes that share a folder on a machine do what one alone does. A holder that ends gives the lease
// up at once, however it ends. One that hangs loses it after Times.Lasts: then the next one takes it with a higher term, and the
// term is compared under the folder's lock before each write, so the one that hung writes nothing when it goes on.
type FolderLease struct {
	dir    string
	holder string
	times  Times
	log    *slog.Logger

	mu    sync.Mutex
	term  uint64    // of the lease while it is held; 0: it is not
	until time.Time // when it has to be given up unless it is renewed
	count int       // how often it was taken
	alive *os.File  // holds the lock of aliveFile
}

// term is the content of leaseFile.
type term struct {
	Term   uint64 `json:"term"`
	Holder string `json:"holder"`
}

// NewFolderLease returns the lease of a folder, which need not exist yet. holder names this control plane. Run takes it.
func NewFolderLease(dir, holder string, times Times, log *slog.Logger) *FolderLease {
	return &FolderLease{dir: dir, holder: holder, times: times, log: log}
}

// Documents returns the folder's documents: Sole is for the holder of the lease.
func (l *FolderLease) Documents() Documents { return leased{folder(l.dir), l} }

// Status returns whether this control plane holds the lease.
func (l *FolderLease) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Status{Store: l.dir, Writes: l.leads(), Leases: l.count}
}

func (l *FolderLease) leads() bool { return l.term != 0 && time.Now().Before(l.until) }

// leased are the documents of a folder with a lease.
type leased struct {
	folder
	lease *FolderLease
}

// Sole implements Documents.
func (d leased) Sole(do func() error) error {
	d.lease.mu.Lock()
	held, leads := d.lease.term, d.lease.leads()
	d.lease.mu.Unlock()
	if !leads {
		return ErrNotWriter
	}
	return d.Locked(func() error {
		if is, err := d.lease.read(); err != nil {
			return err
		} else if is.Term != held {
			return ErrNotWriter
		}
		return do()
	})
}

// Run takes the lease whenever no other process has it, until ctx ends; then it gives the lease back.
func (l *FolderLease) Run(ctx context.Context) error {
	if kind := remote(l.dir); kind != "" {
		l.log.Warn("the folder of the root is on a network file system, and its locks may not hold between machines: several control "+
			"planes want --state etcd://… or consul://…", "folder", l.dir, "kind", kind)
	}
	defer l.release()
	var other seen
	failed := false
	for {
		sent := time.Now()
		err := l.take(&other, sent)
		if err != nil && !errors.Is(err, ErrHeld) && !failed {
			l.log.Error("the lease of the folder cannot be taken, so no root is replaced", "folder", l.dir, "error", err)
		}
		failed = err != nil && !errors.Is(err, ErrHeld)
		if err == nil {
			l.lead(ctx)
		}
		if !servers.Pause(ctx, l.times.Renews/2) {
			return nil
		}
	}
}

// lead renews the lease until that fails.
func (l *FolderLease) lead(ctx context.Context) {
	l.log.Info("this control plane is the one that replaces the root when it is due", "folder", l.dir)
	for servers.Pause(ctx, l.times.Renews) {
		if err := l.renew(time.Now()); err != nil {
			l.log.Warn("this control plane no longer replaces the root", "folder", l.dir, "reason", err)
			l.release()
			return
		}
	}
}

// seen is what a control plane that waits knows of the lease of another one.
type seen struct {
	term    uint64
	renewed time.Time // by the clock of the file
	since   time.Time // when this control plane saw it first
}

// take takes the lease: ErrHeld if another process holds it and renews it.
func (l *FolderLease) take(other *seen, now time.Time) error {
	unlock, err := safefile.Lock(l.dir)
	if err != nil {
		return err
	}
	defer unlock()
	is, err := l.read()
	if err != nil {
		return err
	}
	alive, err := l.lockAlive()
	if errors.Is(err, ErrHeld) {
		info, err := os.Stat(filepath.Join(l.dir, leaseFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		var renewed time.Time
		if err == nil {
			renewed = info.ModTime()
		}
		if other.since.IsZero() || other.term != is.Term || !other.renewed.Equal(renewed) {
			*other = seen{is.Term, renewed, now}
		}
		if now.Sub(other.since) < l.times.Lasts {
			return ErrHeld
		}
		l.log.Warn("the control plane that holds the lease of the folder does not renew it: this one takes it", "folder", l.dir,
			"holder", printable.Text(is.Holder, printable.Short))
		if alive, err = l.replaceAlive(); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	next := max(is.Term+1, uint64(now.UnixNano())) // higher than all before, also if the file was lost
	text, err := json.Marshal(term{next, l.holder})
	if err == nil {
		err = safefile.Write(filepath.Join(l.dir, leaseFile), text, 0o600)
	}
	if err != nil {
		alive.Close()
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term, l.until, l.alive = next, now.Add(l.times.Leads), alive
	l.count++
	return nil
}

// lockAlive takes the lock of the file that shows that a holder lives: ErrHeld if one does.
func (l *FolderLease) lockAlive() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(l.dir, aliveFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = disk.Lock(f, false); err == nil {
		return f, nil
	}
	f.Close()
	if disk.Locked(err) {
		return nil, ErrHeld
	}
	return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
}

// replaceAlive puts another file in the place of the one that a process locks which hangs.
func (l *FolderLease) replaceAlive() (*os.File, error) {
	if err := os.Remove(filepath.Join(l.dir, aliveFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return l.lockAlive()
}

// renew makes the lease last for its whole time again: ErrFenced if another process has taken it.
func (l *FolderLease) renew(now time.Time) error {
	unlock, err := safefile.Lock(l.dir)
	if err != nil {
		return err
	}
	defer unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	is, err := l.read()
	if err != nil {
		return err
	}
	if is.Term != l.term {
		return ErrFenced
	}
	l.until = now.Add(l.times.Leads)
	return os.Chtimes(filepath.Join(l.dir, leaseFile), time.Time{}, time.Now())
}

// release gives the lease up.
func (l *FolderLease) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alive != nil {
		l.alive.Close()
	}
	l.term, l.until, l.alive = 0, time.Time{}, nil
}

// read returns who has the lease. A file that is missing or damaged is of term 0: the next term is higher than all before anyway.
func (l *FolderLease) read() (out term, err error) {
	text, err := safefile.Read(filepath.Join(l.dir, leaseFile), 4<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return term{}, nil //nolint:nilerr // see above
	}
	return out, nil
}
