package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"fairway/internal/identity/safefile"
)

// CopyFile is the name of the file with this machine's copy of the documents in a store. Its form is that of a backup, so the state can be
// restored from it.
const CopyFile = "shared-state.copy"

// SealedAs is the name under which backups and copies are encrypted.
const SealedAs = "backup"

const (
	// ofCopy is the revision of a document in the copy: no record of a store has it, so no change writes over what only the copy says.
	ofCopy = ^uint64(0)
	// confirmEvery is how often the time of an unchanged copy is written.
	confirmEvery = 5 * time.Minute
	mostCopy     = 256 << 20
)

// Backup is the content of a saved state, and of a copy.
type Backup struct {
	Version   int               `json:"version"`
	Saved     time.Time         `json:"saved"`           // when the store had all of it
	Store     string            `json:"store,omitempty"` // that a copy is of
	Documents map[string]string `json:"documents"`
	Absent    []string          `json:"absent,omitempty"` // documents that the store did not have
	Issued    []string          `json:"issued,omitempty"` // the record of issued certificates, a line each
}

// BackupVersion is the version of backups that is written and read.
const BackupVersion = 1

// copied is the copy of the documents of a store, in a file. A nil *copied keeps nothing.
type copied struct {
	path   string
	store  string
	sealer Sealer
	now    func() time.Time
	log    *slog.Logger

	mu     sync.Mutex
	kept   map[string]*string // documents of the file at the start, until the store has been read; nil: the store did not have it
	saved  time.Time          // of the file at the start
	used   bool               // a document of the file was read at the start
	read   map[string]*string // documents as the store had them last
	times  map[string]time.Time
	wrote  time.Time // when the file was written last
	failed bool
}

// KeepCopy keeps a copy of the documents in a folder of this machine, sealed, and reads the copy that is there: it takes the place of the
// store until the store has answered once. of names what is in the store; a copy of something else is not read. Without a key no copy
// is kept, because the root's key would be readable in it. It must be called before documents are read.
func (s *Shared) KeepCopy(path, of string, now func() time.Time) {
	if !s.sealer.Encrypts() {
		return
	}
	c := &copied{
		path: path, store: of, sealer: s.sealer, now: now, log: s.log,
		kept: map[string]*string{}, read: map[string]*string{}, times: map[string]time.Time{},
	}
	if err := c.load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("the copy of the shared state cannot be used: this control plane waits for the store if it is away", "file", path,
			"error", err)
	}
	s.copy = c
}

func (c *copied) load() error {
	content, err := safefile.Read(c.path, mostCopy)
	if err != nil {
		return err
	}
	if content, err = c.sealer.Open(SealedAs, content, mostCopy); err != nil {
		return err
	}
	var b Backup
	if err := json.Unmarshal(content, &b); err != nil || b.Version != BackupVersion {
		return errDamaged
	}
	if b.Store != c.store {
		return nil // of another mesh
	}
	for name, text := range b.Documents {
		c.kept[name] = &text
	}
	for _, name := range b.Absent {
		c.kept[name] = nil
	}
	c.saved = b.Saved
	return nil
}

// stands reports whether the copy takes the place of the store for a document.
func (c *copied) stands(name string) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, has := c.kept[name]
	return has
}

// readKept returns a document of the copy.
func (c *copied) readKept(name string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := c.kept[name]
	c.used = true
	if text == nil {
		return nil, fs.ErrNotExist
	}
	return []byte(*text), nil
}

// inUse returns the time of the copy while it takes the place of the store; zero: it does not.
func (c *copied) inUse() time.Time {
	if c == nil {
		return time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.used || len(c.kept) == 0 {
		return time.Time{}
	}
	return c.saved
}

// missing takes note that the store does not have a document; an error: it had it before, so the store has lost what it kept.
func (c *copied) missing(name string) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	had := c.kept[name]
	if had == nil {
		had = c.read[name]
	}
	c.mu.Unlock()
	if had != nil {
		return fmt.Errorf("it is gone, and this machine has a copy of it: put it back with `pilot-discovery state restore %s`, or "+
			"remove that file to begin with another root", c.path)
	}
	c.take(name, nil)
	return nil
}

// note takes note of a document that was read from the store.
func (c *copied) note(name string, content []byte) {
	if c != nil {
		text := string(content)
		c.take(name, &text)
	}
}

// written takes note of a document that this control plane has written. Documents that it only writes are not in the copy.
func (c *copied) written(name string, content []byte) {
	if c == nil {
		return
	}
	c.mu.Lock()
	_, reads := c.read[name]
	c.mu.Unlock()
	if reads {
		c.note(name, content)
	}
}

func (c *copied) take(name string, text *string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.kept, name)
	before, known := c.read[name]
	c.read[name], c.times[name] = text, c.now()
	same := known && (before == nil) == (text == nil) && (text == nil || *before == *text)
	if same && c.now().Sub(c.wrote) < confirmEvery {
		return
	}
	if len(c.kept) > 0 { // the file has documents that the store was not asked for yet
		return
	}
	err := c.write()
	if err != nil && !c.failed {
		c.log.Warn("the copy of the shared state is not written: a control plane that starts while the store is away waits for it",
			"file", c.path, "error", err)
	}
	c.failed = err != nil
}

// write writes the copy. Its time is that of the document that was read first.
func (c *copied) write() error {
	b := Backup{Version: BackupVersion, Store: c.store, Documents: map[string]string{}}
	for name, text := range c.read {
		if text == nil {
			b.Absent = append(b.Absent, name)
		} else {
			b.Documents[name] = *text
		}
		if at := c.times[name].UTC(); b.Saved.IsZero() || at.Before(b.Saved) {
			b.Saved = at
		}
	}
	c.wrote = c.now()
	if len(b.Documents) == 0 {
		return nil
	}
	content, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if content, err = c.sealer.Seal(SealedAs, content); err != nil {
		return err
	}
	return safefile.Write(c.path, content, 0o600)
}
