package file

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"fairway/internal/config"
	"fairway/internal/mesh"
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

// ledger knows what stands in which file, and which of several that hold the same object counts.
type ledger struct {
	files  map[string]*content
	claims map[config.Key][]claim // in order of path, then of place in the file: the first counts
	out    map[config.Key]*config.Object

	folders map[string]mesh.Problem // what is to say of folders

	dirtyKeys  map[config.Key]bool
	dirtyFiles map[string]bool
}

type content struct {
	stamp   stamp
	entries []entry // never changed in place: a task may hold them
	failed  string  // why it could not be read the last time
}

type claim struct {
	path   string
	index  int
	object *config.Object
}

func newLedger() *ledger {
	return &ledger{
		files: map[string]*content{}, claims: map[config.Key][]claim{}, out: map[config.Key]*config.Object{},
		folders: map[string]mesh.Problem{}, dirtyKeys: map[config.Key]bool{}, dirtyFiles: map[string]bool{},
	}
}

func (l *ledger) has(path string) bool { return l.files[path] != nil }

// same says whether the file is as it was when it was read.
func (l *ledger) same(path string, info fs.FileInfo) bool {
	c := l.files[path]
	return c != nil && c.stamp == stampOf(info)
}

// size is that of a file when it was read, in bytes.
func (l *ledger) size(path string) int64 {
	if c := l.files[path]; c != nil {
		return c.stamp.size
	}
	return 0
}

// note sets what is to say of a folder; the zero Problem takes it back.
func (l *ledger) note(folder string, p mesh.Problem) {
	if l.folders[folder] == p {
		return
	}
	if l.folders[folder] = p; p == (mesh.Problem{}) {
		delete(l.folders, folder)
	}
	l.dirtyFiles[folder] = true
}

// fail keeps a file that cannot be read as it was, but for what is to say of it.
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
	l.unclaim(path)
	l.files[path] = &content{stamp: s, entries: entries}
	l.dirtyFiles[path] = true
	for i, e := range entries {
		if e.object == nil {
			continue
		}
		c := claim{path, i, e.object}
		list := l.claims[e.key]
		at, _ := slices.BinarySearchFunc(list, c, compareClaim)
		l.claims[e.key] = slices.Insert(list, at, c)
		l.dirtyKeys[e.key] = true
	}
}

func compareClaim(a, b claim) int {
	return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.index, b.index))
}

func (l *ledger) remove(path string) {
	if l.files[path] == nil {
		return
	}
	l.unclaim(path)
	delete(l.files, path)
	l.dirtyFiles[path] = true
}

func (l *ledger) unclaim(path string) {
	for _, e := range l.entries(path) {
		if e.object == nil {
			continue
		}
		rest := slices.DeleteFunc(l.claims[e.key], func(c claim) bool { return c.path == path })
		l.claims[e.key] = rest
		if len(rest) == 0 {
			delete(l.claims, e.key)
		}
		l.dirtyKeys[e.key] = true
	}
}

// flush returns what changed since the last flush.
func (l *ledger) flush() (source.Batch, bool) {
	b := source.Batch{Problems: map[string][]mesh.Problem{}}
	for _, key := range slices.SortedFunc(maps.Keys(l.dirtyKeys), config.CompareKey) {
		list := l.claims[key]
		for _, c := range list {
			l.dirtyFiles[c.path] = true // who counts may have changed
		}
		switch {
		case len(list) == 0:
			if _, had := l.out[key]; had {
				delete(l.out, key)
				b.Delete = append(b.Delete, key)
			}
		case !config.Same(l.out[key], list[0].object) || !l.out[key].Written().Equal(list[0].object.Written()):
			l.out[key] = list[0].object
			b.Set = append(b.Set, list[0].object)
		}
	}
	for path := range l.dirtyFiles {
		b.Problems[path] = l.problems(path)
	}
	changed := len(b.Set)+len(b.Delete)+len(l.dirtyFiles) > 0
	clear(l.dirtyKeys)
	clear(l.dirtyFiles)
	return b, changed
}

// maxProblems is how many problems are told of one file; the others are counted.
const maxProblems = 100

// problems is what there is to say of a file or a folder.
func (l *ledger) problems(path string) []mesh.Problem {
	if p, is := l.folders[path]; is {
		return []mesh.Problem{p}
	}
	var out []mesh.Problem
	more, worst := 0, mesh.Info
	add := func(severity mesh.Severity, make func() mesh.Problem) {
		if len(out) < maxProblems {
			out = append(out, make())
		} else {
			more, worst = more+1, max(worst, severity)
		}
	}
	for i := range l.entries(path) {
		e := &l.files[path].entries[i]
		for _, p := range e.problems {
			add(p.Severity, func() mesh.Problem { return p })
		}
		if e.object == nil {
			continue
		}
		if first := l.claims[e.key][0]; first.path != path || first.index != i {
			add(mesh.Error, func() mesh.Problem { return duplicate(e, first) })
		}
	}
	if more > 0 {
		out = append(out, mesh.Problem{
			Object: mesh.ObjectRef{
				Kind: "file",
				File: path,
				Line: 1,
			},
			Code:     "TooManyProblems",
			Severity: worst,
			Message:  fmt.Sprintf("and %d more problems in this file", more),
		})
	}
	return out
}

func duplicate(e *entry, first claim) mesh.Problem {
	return mesh.Problem{
		Object: e.object.Ref, Line: e.object.Ref.Line, Code: "DuplicateObject", Severity: mesh.Error,
		Message: fmt.Sprintf("%s is also in %s:%d, which counts", e.key, first.path, first.object.Ref.Line), Fix: "keep one of the two",
	}
}

// keepGood puts the good version of before in the place of each document that is bad now. It is found by the object's
// key; where not even that can be read, what stood in the same place and is nowhere else now is kept, and with it all
// that went without a trace: a document that cannot be read may have been any of them.
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

// orphans are the good versions that may have been what a document that cannot be read was.
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
		last.Message += fmt.Sprintf("; %s and all else that stood in the file stays in force", out[0].key)
		if len(out) == 1 {
			last.Message = strings.Replace(last.Message, " and all else that stood in the file", "", 1)
		}
	}
	return out
}
