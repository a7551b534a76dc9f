package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fairway/internal/identity/safefile"
)

// Documents are named texts that several processes change.
type Documents interface {
	// Locked runs do. If another process changes meanwhile what do has read and wants to write, do runs again.
	Locked(do func() error) error
	// Sole is Locked for what one control plane alone does: ErrNotWriter if this is another one.
	Sole(do func() error) error
	// Read returns fs.ErrNotExist for a document that is missing. Outside of Locked it may be called at any time.
	Read(name string, limit int64) ([]byte, error)
	// Write replaces a document; within Locked, one that do has read. For a folder, mode are the file's permissions.
	Write(name string, content []byte, mode os.FileMode) error
	// Place names a document for users.
	Place(name string) string
}

// Errors of stores and documents.
var (
	// ErrConflict means that a record is not the one that was read.
	ErrConflict = errors.New("another control plane has changed it meanwhile")
	// ErrFenced means that another control plane may hold the lease.
	ErrFenced = errors.New("another control plane is the one that writes")
	// ErrNotWriter means that another control plane does this.
	ErrNotWriter = errors.New("this control plane is not the one that writes")
	// ErrHeld means that another control plane holds the lease.
	ErrHeld = errors.New("another control plane holds the lease")
	// ErrAway means that the store does not answer, and nothing of this machine takes its place.
	ErrAway = errors.New("the store of shared state does not answer")
)

// Folder are the files of a folder, which processes of one machine share. Its lock lets one of them write at a time, so each may do what
// one alone does.
func Folder(dir string) Documents { return folder(dir) }

type folder string

// Locked implements Documents.
func (f folder) Locked(do func() error) error {
	unlock, err := safefile.Lock(string(f))
	if err != nil {
		return fmt.Errorf("the folder that keeps the root: %w; name one that can be written", err)
	}
	defer unlock()
	return do()
}

// Sole implements Documents.
func (f folder) Sole(do func() error) error { return f.Locked(do) }

// Read implements Documents. A file that others may read, as a restored one, is closed to them, unless it is for everybody.
func (f folder) Read(name string, limit int64) ([]byte, error) {
	out, err := safefile.Read(f.Place(name), limit)
	if err != nil || !strings.HasSuffix(name, ".json") {
		return out, err
	}
	if info, err := os.Stat(f.Place(name)); err == nil && info.Mode().Perm()&0o077 != 0 {
		return out, os.Chmod(f.Place(name), 0o600)
	}
	return out, nil
}

// Write implements Documents.
func (f folder) Write(name string, content []byte, mode os.FileMode) error {
	return safefile.Write(f.Place(name), content, mode)
}

// Place implements Documents.
func (f folder) Place(name string) string { return filepath.Join(string(f), name) }
