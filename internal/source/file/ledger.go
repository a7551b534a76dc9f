package file

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source"
)

// entry is one document of a file.
type entry struct {
	key      config.Key
	line     int
	text     []byte
	object   *config.Object // nil: the document gives none
	problems []mesh.Problem
	kept     bool // object is the good version before this text, which is bad
	lost     bool // not even which object it is can be read
}

// ledger knows the content of each file.
type ledger struct {
	files   map[string]*content
	folders map[string]mesh.Problem // problems of folders
	dirty   map[string]bool         // files and folders with problems to report or to take back
}

type content struct {
	stamp   stamp
	entries []entry // never changed in place: a task may hold them
	failed  string  // why it could not be read the last time
}

func newLedger() *ledger {
	return &ledger{files: map[string]*content{}, folders: map[string]mesh.Problem{}, dirty: map[string]bool{}}
}

func (l *ledger) has(path string) bool { return l.files[path] != nil }

// same reports whether the file is as it was when it was read.
func (l *ledger) same(path string, info fs.FileInfo) bool {
	c := l.files[path]
	return c != nil && c.stamp == stampOf(info)
}

// size returns the size of a file when it was read, in bytes.
func (l *ledger) size(path string) int64 {
	if c := l.files[path]; c != nil {
		return c.stamp.size
	}
	return 0
}

// note sets the problem of a folder; the zero Problem takes it back.
func (l *ledger) note(folder string, p mesh.Problem) {
	if l.folders[folder] == p {
		return
	}
	if l.folders[folder] = p; p == (mesh.Problem{}) {
		delete(l.folders, folder)
	}
	l.dirty[folder] = true
}

// fail notes that a file cannot be read. Its content stays as it was, but its problems change.
func (l *ledger) fail(f loaded) {
	c := l.files[f.path]
	if c != nil && c.failed == f.failed.Error() {
		return
	}
	size := l.size(f.path)
	l.replace(f.path, stamp{size: size}, f.entries)
	l.files[f.path].failed = f.failed.Error()
}

func (l *ledger) entries(path string) []entry {
	if c := l.files[path]; c != nil {
		return c.entries
	}
	return nil
}

func (l *ledger) filesBelow(dir string) []string {
	var out []string
	for path := range l.files {
		if isBelow(path, dir) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

func (l *ledger) below(dir string) bool {
	for path := range l.files {
		if isBelow(path, dir) {
			return true
		}
	}
	return false
}

func isBelow(path, dir string) bool {
	return dir == "." && !filepath.IsAbs(path) || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// replace sets what a file holds.
func (l *ledger) replace(path string, s stamp, entries []entry) {
	l.files[path] = &content{stamp: s, entries: entries}
	l.dirty[path] = true
}

func (l *ledger) remove(path string) {
	if l.files[path] == nil {
		return
	}
	delete(l.files, path)
	l.dirty[path] = true
}

// flush returns what there is to say since the last flush: each file is a shard. false: nothing.
func (l *ledger) flush() (source.Update, bool) {
	u := source.Update{Problems: map[string][]mesh.Problem{}}
	for _, path := range slices.Sorted(maps.Keys(l.dirty)) {
		u.Problems[path] = l.problems(path)
		shard := source.Shard{Key: source.ShardKey{Kind: "file", Part: path}, Whole: true}
		for _, e := range l.entries(path) {
			if e.object != nil {
				shard.Rows.Objects = append(shard.Rows.Objects, e.object)
			}
		}
		u.Shards = append(u.Shards, shard)
	}
	changed := len(l.dirty) > 0
	clear(l.dirty)
	return u, changed
}

// maxProblems is how many problems of one file are reported; the others are counted.
const maxProblems = 100

// problems returns the problems of a file or a folder.
func (l *ledger) problems(path string) []mesh.Problem {
	if p, is := l.folders[path]; is {
		return []mesh.Problem{p}
	}
	var out []mesh.Problem
	more, worst := 0, mesh.Info
	for _, e := range l.entries(path) {
		for _, p := range e.problems {
			if len(out) < maxProblems {
				out = append(out, p)
			} else {
				more, worst = more+1, max(worst, p.Severity)
			}
		}
	}
	if more > 0 {
		out = append(out, mesh.Problem{
			Object: mesh.ObjectRef{
				Kind: "file",
				File: path,
				Line: 1,
			},
			Code:     code.TooManyProblems,
			Severity: worst,
			Message:  fmt.Sprintf("and %d more problems in this file", more),
		})
	}
	return out
}

// keepGood puts the good version of before in the place of each document that is bad now. It is found by the object's
// key; if not even that can be read, the object in the same place that is nowhere else now is kept, and with it all
// objects that went without a trace: a document that cannot be read may have been any of them.
func keepGood(old, now []entry) []entry {
	before := map[config.Key]*entry{}
	for i := range old {
		if e := &old[i]; e.object != nil && before[e.key] == nil {
			before[e.key] = e
		}
	}
	for i := range now {
		if now[i].object != nil {
			delete(before, now[i].key)
		}
	}
	lost := -1
	for i := range now {
		e := &now[i]
		if e.object == nil && !e.lost {
			keep(e, before)
		}
		if e.lost && lost < 0 {
			lost = i
		}
	}
	if lost < 0 {
		return now
	}
	return append(now, orphans(&now[lost], old, before)...)
}

// keep gives a bad document the good version of the same object.
func keep(e *entry, before map[config.Key]*entry) {
	good := before[e.key]
	if good == nil || !hasError(e.problems) {
		return
	}
	delete(before, e.key)
	e.object, e.kept = good.object, true
	e.problems = slices.Clone(e.problems)
	for i := range e.problems {
		if e.problems[i].Severity == mesh.Error {
			e.problems[i].Message += "; the version before it stays in force"
		}
	}
}

// orphans returns the good versions that may be earlier versions of a document that cannot be read.
func orphans(bad *entry, old []entry, before map[config.Key]*entry) []entry {
	var out []entry
	for i := range old {
		if e := old[i]; e.object != nil && before[e.key] != nil {
			delete(before, e.key)
			e.kept, e.lost, e.problems = true, false, nil
			out = append(out, e)
		}
	}
	if len(out) > 0 {
		bad.problems = slices.Clone(bad.problems)
		last := &bad.problems[len(bad.problems)-1]
		last.Message += fmt.Sprintf("; %s and the rest of the file stay in force", out[0].key)
		if len(out) == 1 {
			last.Message = strings.Replace(last.Message, " and the rest of the file stay", " stays", 1)
		}
	}
	return out
}
