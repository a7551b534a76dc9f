package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"fairway/internal/admin/page"
	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/identity/safefile"
)

// keptFile is the name of the file with the last turns: a header, then a line for each turn, the oldest first.
const keptFile = "history.json"

// Bounds of the file. A turn that needs a longer line is left out, and the oldest turns are if all need more.
const (
	mostLine  = 256 << 10
	mostBytes = 16 << 20
	mostTurn  = 1 << 53 // the number of a turn
)

// keepEvery is how often the file is written while turns come.
const keepEvery = 2 * time.Second

// ahead is how many turns may come until the file is written next: a process that is killed leaves numbers out, and none comes twice.
const ahead = 10_000

// keptVersion is the version of the format.
const keptVersion = 1

// keptHead is the first line.
type keptHead struct {
	Version int    `json:"version"`
	Last    uint64 `json:"last"` // turns are counted on from it
}

// keptTurn is a line.
type keptTurn struct {
	page.Turn
	Keys []page.TurnObject `json:"keys,omitempty"` // objects that it is found by
}

// Past are the turns of an earlier process. The zero value is none, of a Log that keeps none and writes no lines.
type Past struct {
	// Last is the number that turns are counted on from.
	Last  uint64
	turns []*turn
	path  string
	log   *slog.Logger
}

// Read reads the turns that an earlier process kept in a folder; empty: nothing is kept. If the file cannot be read, turns are counted from
// 1 again; it is replaced.
func Read(folder string, log *slog.Logger) Past {
	if folder == "" {
		return Past{log: log}
	}
	p := Past{path: filepath.Join(folder, keptFile), log: log}
	text, _, err := disk.Read(disk.OS, p.path, mostBytes+mostLine)
	if errors.Is(err, fs.ErrNotExist) {
		return p
	}
	if err == nil {
		err = p.decode(text)
	}
	if err != nil {
		log.Warn("the history before the start is lost, and turns are counted from 1 again", "file", p.path, "error", err)
		p.Last, p.turns = 0, nil
	}
	return p
}

// decode reads the file as if a stranger had written it. Its end may be missing.
func (p *Past) decode(text []byte) error {
	var head keptHead
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if err := json.Unmarshal(first, &head); err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	if head.Version != keptVersion || head.Last > mostTurn {
		return fmt.Errorf("line 1: version %d, last turn %d: want version %d, and turns up to %d", head.Version, head.Last, keptVersion,
			uint64(mostTurn))
	}
	before := uint64(0)
	for number := 2; len(rest) > 0; number++ {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		t, err := decodeTurn(line)
		if err == nil && (t.Number <= before || t.Number > head.Last || len(p.turns) == mostTurns) {
			err = fmt.Errorf("turn %d after turn %d: want rising numbers up to %d, of %d turns at most",
				t.Number, before, head.Last, mostTurns)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		before = t.Number
		p.turns = append(p.turns, t)
	}
	p.Last = head.Last
	return nil
}

func decodeTurn(line []byte) (*turn, error) {
	if len(line) > mostLine || !utf8.Valid(line) {
		return nil, fmt.Errorf("%d bytes: want UTF-8 of at most %d", len(line), mostLine)
	}
	var k keptTurn
	if err := json.Unmarshal(line, &k); err != nil {
		return nil, err
	}
	if len(k.Objects) > mostObjects || len(k.Keys) > mostKeys || len(k.Tables) > mostTables || len(k.Refusals) > mostRefused ||
		len(k.Inputs) > mostKeys || len(k.Resources) > mostKeys {
		return nil, errors.New("it has more than a turn has")
	}
	out := &turn{Turn: k.Turn, past: true, ended: true, line: line}
	out.Inputs = texts(k.Inputs)
	for _, o := range k.Keys {
		kind, known := config.KindCalled(o.Kind, config.WrittenKinds())
		if known { // of a kind that this version has
			out.objects = append(out.objects, config.Key{Kind: kind, Namespace: o.Namespace, Name: o.Name})
		}
	}
	return out, nil
}

// Run keeps the turns on disk, until ctx ends. Turns do not wait for it.
func (l *Log) Run(ctx context.Context) error {
	if l.kept == "" {
		return nil
	}
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	written, failed, ended := ^uint64(0), false, false
	for !ended {
		text, changes := l.encode(written, ahead)
		if ended = ctx.Err() != nil; ended {
			text, changes = l.encode(^uint64(0), 1) // a turn may be under way
		}
		if text != nil {
			err := safefile.Write(l.kept, text, 0o600)
			if err == nil {
				written = changes
			} else if !failed {
				l.log.Warn("the history is not kept on disk: after a restart it is lost", "error", err)
			}
			failed = err != nil
		}
		if ended {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done(): // keeps the last changes too
		}
	}
	return nil
}

// unwritten is a turn without its line.
type unwritten struct {
	at      int // in the lines
	of      *turn
	changes int
	keptTurn
}

// encode returns the file's text, unless nothing has changed since written. more is how many turns may come until the next text.
func (l *Log) encode(written, more uint64) (text []byte, changes uint64) {
	l.mu.Lock()
	if l.changes == written {
		l.mu.Unlock()
		return nil, written
	}
	changes = l.changes
	lines := make([][]byte, len(l.turns))
	var missing []unwritten
	for i, t := range l.turns {
		if lines[i] = t.line; t.line == nil {
			missing = append(missing, unwritten{i, t, t.changes, keptTurn{t.copied(), keysOf(t.objects)}})
		}
	}
	head := keptHead{keptVersion, l.last + more}
	l.mu.Unlock()

	for _, m := range missing { // apart from the turns, which wait for the lock
		line, err := json.Marshal(m.keptTurn)
		if err != nil || len(line) > mostLine {
			continue // Marshal does not fail for such fields
		}
		lines[m.at] = line
	}
	l.mu.Lock()
	for _, m := range missing {
		if m.of.changes == m.changes {
			m.of.line = lines[m.at]
		}
	}
	l.mu.Unlock()
	first, err := json.Marshal(head)
	if err != nil {
		return nil, written // two numbers: it does not fail
	}
	return join(first, lines), changes
}

// join puts lines together, the last of them if they are too many bytes.
func join(first []byte, lines [][]byte) []byte {
	from, size := len(lines), len(first)+1
	for from > 0 && size+len(lines[from-1]) < mostBytes {
		from--
		size += len(lines[from]) + 1
	}
	out := append(make([]byte, 0, size), first...)
	out = append(out, '\n')
	for _, line := range lines[from:] {
		if len(line) > 0 {
			out = append(append(out, line...), '\n')
		}
	}
	return out
}

func keysOf(objects []config.Key) []page.TurnObject {
	out := make([]page.TurnObject, 0, len(objects))
	for _, k := range objects {
		out = append(out, page.TurnObject{Kind: string(k.Kind), Namespace: k.Namespace, Name: k.Name})
	}
	return slices.Clip(out)
}
