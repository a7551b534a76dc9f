package book

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"strconv"
	"sync"

	"fairway/internal/disk"
	"fairway/internal/identity/safefile"
)

// Journal keeps a state in a file: a line that says what it is, a line for each thing, and one more for each change since.
// A change is on disk when Flush of its revision has returned; those that come meanwhile are written together. The
// file is written anew, as a whole, when changes are most of it, and after any failure. A nil journal keeps nothing.
type Journal struct {
	files disk.Files
	path  string

	mu      sync.Mutex // guards pending and upTo
	pending []byte
	upTo    uint64 // the revision that pending ends with

	flushing sync.Mutex // guards what follows
	file     disk.Random
	done     uint64 // all is written up to this revision
	size     int64
	whole    int64 // what of size is not changes
	broken   bool  // how the file ends is not known
}

const journalFormat = 1

// head is the first line.
type head struct {
	Format   int    `json:"format"`
	Revision uint64 `json:"revision"`
	Floor    uint64 `json:"floor"`
}

// record is any other line. It has neither Service nor Text if the thing is gone.
type record struct {
	Revision  uint64          `json:"revision"`
	Kind      string          `json:"kind,omitempty"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Service   json.RawMessage `json:"service,omitempty"`
	Text      string          `json:"text,omitempty"`
}

// spare is how many bytes of changes are kept behind any state.
const spare = 1 << 20

// OpenJournal reads the file, of a state with at most most bytes, and writes it anew. It returns the state that it read, or fresh if there
// is no file. An error says what is wrong with the file and how to go on; the file stays as it is.
func OpenJournal(files disk.Files, path string, most int64, fresh *Book) (*Journal, *Book, error) {
	j := &Journal{files: files, path: path, broken: true}
	content, _, err := disk.Read(files, path, 8*most+spare) // changes double it, and JSON makes texts longer
	state := fresh
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, nil, err
	default:
		if state, err = replay(content); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	err = j.Flush(state.revision, state.Content)
	if err != nil {
		return nil, nil, err
	}
	return j, state, nil
}

// replay reads a journal. A last line that is not whole was never answered for, and is left out.
func replay(content []byte) (*Book, error) {
	first, rest, _ := bytes.Cut(content, []byte{'\n'})
	text, ok := unsealed(first)
	var h head
	if !ok || json.Unmarshal(text, &h) != nil {
		return nil, errors.New("it is not a state of this API, or damaged in line 1; put it aside to begin with nothing")
	}
	if h.Format != journalFormat {
		return nil, fmt.Errorf("it is of format %d, and format %d is read", h.Format, journalFormat)
	}
	state := &Book{entries: map[Key]*Entry{}}
	for line := 2; len(rest) > 0; line++ {
		var one []byte
		whole := false
		if one, rest, whole = bytes.Cut(rest, []byte{'\n'}); !whole {
			break
		}
		var r record
		text, ok := unsealed(one)
		if !ok || json.Unmarshal(text, &r) != nil {
			if len(rest) == 0 {
				break
			}
			return nil, fmt.Errorf("it is damaged in line %d; take the line out to go on without it, or put the file aside", line)
		}
		if r.Revision <= state.revision {
			continue // it was written again
		}
		e := &Entry{Key: Key{r.Kind, r.Namespace, r.Name}, Revision: r.Revision}
		switch {
		case r.Kind == "" && r.Service != nil:
			e.Body = bytes.Clone(r.Service)
		case r.Kind != "" && r.Text != "":
			e.Body = []byte(r.Text)
		}
		state.restore(e)
	}
	state.revision, state.floor = max(state.revision, h.Revision), max(state.floor, h.Floor)
	return state, nil
}

// sealed returns a line with its check sum.
func sealed(to []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // structs of strings and numbers can always be written
	}
	to = append(to, fmt.Sprintf("%08x ", crc32.ChecksumIEEE(text))...)
	return append(append(to, text...), '\n')
}

// unsealed returns the text after the check sum, if the check sum is right.
func unsealed(line []byte) ([]byte, bool) {
	sum, text, ok := bytes.Cut(line, []byte{' '})
	n, err := strconv.ParseUint(string(sum), 16, 32)
	return text, ok && err == nil && uint32(n) == crc32.ChecksumIEEE(text)
}

func (e *Entry) record() record {
	r := record{Revision: e.Revision, Kind: e.Key.Kind, Namespace: e.Key.Namespace, Name: e.Key.Name}
	if e.Key.Kind == "" {
		r.Service = e.Body
	} else {
		r.Text = string(e.Body)
	}
	return r
}

// Add notes a change for the next Flush. Changes must be added in order of their revisions, under the lock that guards the book.
func (j *Journal) Add(e *Entry) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending, j.upTo = sealed(j.pending, e.record()), e.Revision
}

// Flush returns once the change of a revision, and those before it, would survive a power cut. all returns the whole state, as Book.Content
// does; it is called if the file has to be written anew. Any goroutine may call Flush.
func (j *Journal) Flush(revision uint64, all func() (entries []*Entry, floor, revision uint64)) error {
	if j == nil {
		return nil
	}
	j.flushing.Lock()
	defer j.flushing.Unlock()
	if !j.broken && j.done >= revision {
		return nil
	}
	j.mu.Lock()
	more, upTo := j.pending, j.upTo
	j.pending = nil
	j.mu.Unlock()
	var err error
	if j.broken || j.file == nil || j.size+int64(len(more)) > 2*j.whole+spare {
		upTo, err = j.anew(all)
	} else {
		err = j.more(more)
	}
	if j.broken = err != nil; j.broken {
		return err
	}
	j.done = max(j.done, upTo)
	return nil
}

// more appends. flushing is held.
func (j *Journal) more(text []byte) error {
	if _, err := j.file.WriteAt(text, j.size); err != nil {
		return err
	}
	j.size += int64(len(text))
	return j.file.Sync()
}

// anew writes the whole file. flushing is held.
func (j *Journal) anew(all func() ([]*Entry, uint64, uint64)) (upTo uint64, err error) {
	entries, floor, revision := all()
	text := sealed(nil, head{journalFormat, revision, floor})
	for _, e := range entries {
		text = sealed(text, e.record())
	}
	if err := safefile.WriteOn(j.files, j.path, text, 0o600); err != nil {
		return 0, err
	}
	if j.file != nil {
		_ = j.file.Close() // it has no name any more
	}
	if j.file, err = j.files.Edit(j.path); err != nil {
		j.file = nil
		return 0, err
	}
	j.size, j.whole = int64(len(text)), int64(len(text))
	return revision, nil
}

// Close closes the file until the next Flush.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	j.flushing.Lock()
	defer j.flushing.Unlock()
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}
