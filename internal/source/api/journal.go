package api

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

// journal keeps a state in a file: a line that says what it is, a line for each thing, and one more for each change since.
// A change is written down when flush of its revision has returned; those that come meanwhile are written together. The
// file is written anew, as a whole, when changes are most of it, and after any failure. A nil journal keeps nothing.
type journal struct {
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

// openJournal reads the file, and writes it anew. If there is no file, the state is fresh.
func openJournal(files disk.Files, path string, most int64, fresh *book) (*journal, *book, error) {
	j := &journal{files: files, path: path, broken: true}
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
	entries := make([]*entry, 0, len(state.order))
	for _, p := range state.order {
		if p.entry != nil {
			entries = append(entries, p.entry)
		}
	}
	err = j.flush(state.revision, func() ([]*entry, uint64, uint64) { return entries, state.floor, state.revision })
	if err != nil {
		return nil, nil, err
	}
	return j, state, nil
}

// replay reads a journal. A last line that is not whole was never answered for, and is left out.
func replay(content []byte) (*book, error) {
	first, rest, _ := bytes.Cut(content, []byte{'\n'})
	text, ok := unsealed(first)
	var h head
	if !ok || json.Unmarshal(text, &h) != nil {
		return nil, errors.New("it is not a state of this API, or damaged in line 1; put it aside to begin with nothing")
	}
	if h.Format != journalFormat {
		return nil, fmt.Errorf("it is of format %d, and format %d is read", h.Format, journalFormat)
	}
	state := &book{entries: map[key]*entry{}}
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
		e := &entry{key: key{r.Kind, r.Namespace, r.Name}, revision: r.Revision}
		switch {
		case r.Kind == "" && r.Service != nil:
			e.body = bytes.Clone(r.Service)
		case r.Kind != "" && r.Text != "":
			e.body = []byte(r.Text)
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

func (e *entry) record() record {
	r := record{Revision: e.revision, Kind: e.key.kind, Namespace: e.key.namespace, Name: e.key.name}
	if e.key.kind == "" {
		r.Service = e.body
	} else {
		r.Text = string(e.body)
	}
	return r
}

// add notes a change. Changes are added in order.
func (j *journal) add(e *entry) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending, j.upTo = sealed(j.pending, e.record()), e.revision
}

// flush returns once the change of a revision, and those before it, would survive a power cut. all is the whole state,
// in order of last change. It may be called from any goroutine.
func (j *journal) flush(revision uint64, all func() (entries []*entry, floor, revision uint64)) error {
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
func (j *journal) more(text []byte) error {
	if _, err := j.file.WriteAt(text, j.size); err != nil {
		return err
	}
	j.size += int64(len(text))
	return j.file.Sync()
}

// anew writes the whole file. flushing is held.
func (j *journal) anew(all func() ([]*entry, uint64, uint64)) (upTo uint64, err error) {
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

// close leaves the file until the next flush.
func (j *journal) close() error {
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
