package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"maps"
	"math"

	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// stamp tells one content of a file from another without reading it.
type stamp struct {
	id   disk.ID
	size int64
	mod  time.Time
}

func stampOf(info fs.FileInfo) stamp {
	return stamp{id: disk.IDOf(info), size: info.Size(), mod: info.ModTime()}
}

// task is a file to be read. It may be done on any goroutine: it holds all of the ledger that it needs, which is never changed in place.
type task struct {
	path string
	kind config.Kind // of a file that holds one thing without kind and name
	old  []entry     // what the ledger has of it
	slow bool        // it was begun once, and is more work than huge
}

// refused reports whether the file held something that was refused the last time.
func (t task) refused() bool {
	return slices.ContainsFunc(t.old, func(e entry) bool { return hasError(e.problems) })
}

// work estimates what so many bytes cost to decode, if the file has as many documents as the last time.
func (t task) work(size int64) int { return int(size) + documentWork*len(t.old) }

// loaded is one file as it was read.
type loaded struct {
	task
	stamp    stamp
	docs     []config.Document
	results  []entry // one a document, as decoded
	entries  []entry // as the ledger is to hold them
	failed   error   // it could not be read
	missing  bool    // there is no such file
	unstable bool    // it changed while it was read
	work     int     // that its content makes
	isPutOff bool    // it is more work than was allowed, and nothing is decoded
}

// loader reads and decodes files. Its methods may be called from any goroutine.
type loader struct {
	files   disk.Files
	decoder *config.Decoder
	log     func(message string, args ...any)
}

// all reads files on all cores, with results in the order of tasks. A file that makes more work than most is not decoded.
func (l loader) all(tasks []task, most int) []loaded {
	files := make([]loaded, len(tasks))
	parallel(len(tasks), func(i int) {
		files[i] = l.read(tasks[i])
		files[i].putOff(most)
	})
	type unit struct{ file, doc int }
	var units []unit
	reuse := make([]map[string]*entry, len(tasks))
	for i := range files {
		reuse[i] = byText(files[i].old, len(files[i].docs))
		for j := range files[i].docs {
			units = append(units, unit{i, j})
		}
	}
	parallel(len(units), func(i int) {
		f := &files[units[i].file]
		f.results[units[i].doc] = l.decode(f.kind, f.docs[units[i].doc], reuse[units[i].file])
	})
	for i := range files {
		files[i].finish()
	}
	return files
}

// putOff leaves a file for later that makes more work than most.
func (f *loaded) putOff(most int) {
	for _, doc := range f.docs {
		f.work += len(doc.Text) + documentWork
	}
	if f.work > most {
		f.docs, f.results, f.isPutOff = nil, nil, true
	}
}

// one reads a file by itself, unless it makes more work than most. It gives up between documents when ctx ends.
func (l loader) one(ctx context.Context, t task, most int) loaded {
	f := l.read(t)
	f.putOff(most)
	reuse := byText(f.old, len(f.docs))
	for i, doc := range f.docs {
		if ctx.Err() != nil {
			f.unstable = true
			return f
		}
		f.results[i] = l.decode(f.kind, doc, reuse)
	}
	f.finish()
	return f
}

func (f *loaded) finish() {
	if f.failed != nil {
		f.results = []entry{unreadable(f.path, f.failed)}
	}
	f.entries = keepGood(f.old, f.results)
	f.docs, f.results = nil, nil
}

// byText finds a file's documents by what they say, so that an edit of one does not decode its neighbours again.
func byText(old []entry, documents int) map[string]*entry {
	if len(old) == 0 || documents == 0 {
		return nil
	}
	out := make(map[string]*entry, len(old))
	for i := range old {
		if e := &old[i]; !e.kept {
			out[string(e.text)] = e
		}
	}
	return out
}

// parallel calls fn for 0 to n-1 on all cores.
func parallel(n int, fn func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers <= 1 {
		for i := range n {
			fn(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				fn(i)
			}
		})
	}
	wg.Wait()
}

// read reads one file and takes it apart.
func (l loader) read(t task) (out loaded) {
	out.task = t
	defer func() {
		if p := recover(); p != nil {
			l.log("a file ended what reads it", "file", t.path, "panic", p, "stack", string(debug.Stack()))
			out.docs, out.failed = nil, fmt.Errorf("%v", p)
		}
	}()
	data, info, err := disk.Read(l.files, t.path, disk.MaxFile)
	switch {
	case disk.Gone(err):
		out.missing = true
		return out
	case errors.Is(err, disk.ErrChanging):
		out.unstable = true
		return out
	case err != nil:
		out.failed = err
		return out
	}
	out.stamp = stampOf(info)
	out.docs = config.Split(t.path, data)
	switch {
	case t.kind != "" && len(out.docs) == 0:
		out.docs = []config.Document{{File: t.path, Line: 1}} // says nothing but that defaults hold
	case len(out.docs) > config.MaxDocuments:
		out.docs, out.failed = nil, errDocuments
		return out
	case len(out.docs) > 1:
		for i := range out.docs { // one document kept must not keep its neighbours' text
			out.docs[i].Text = bytes.Clone(out.docs[i].Text)
		}
	}
	out.results = make([]entry, len(out.docs))
	return out
}

var errDocuments = fmt.Errorf("it holds more than %d documents", config.MaxDocuments)

// decode decodes one document, or takes the object that the same text gave before.
func (l loader) decode(kind config.Kind, doc config.Document, known map[string]*entry) (e entry) {
	defer func() {
		if p := recover(); p != nil {
			l.log("a document ended what reads it", "file", doc.File, "line", doc.Line, "panic", p, "stack", string(debug.Stack()))
			e = entry{line: doc.Line, text: doc.Text, lost: true, problems: []mesh.Problem{{
				Object: mesh.ObjectRef{Kind: "file", File: doc.File, Line: doc.Line}, Code: code.Unreadable, Severity: mesh.Error,
				Message: "the document cannot be read, by a fault of the control plane's own", Fix: "its log has the rest",
			}}}
		}
	}()
	if old := known[string(doc.Text)]; old != nil && (old.line == doc.Line || len(old.problems) == 0) && old.object != nil && !old.lost {
		e := *old
		e.kept = false
		if e.line != doc.Line {
			moved := *old.object
			moved.Ref.Line, e.line, e.object = doc.Line, doc.Line, &moved
		}
		return e
	}
	e = entry{line: doc.Line, text: doc.Text}
	switch kind {
	case config.MeshConfig:
		e.object, e.problems = l.decoder.DecodeMeshConfig(doc)
	case config.MeshNetworks:
		e.object, e.problems = l.decoder.DecodeMeshNetworks(doc)
	default:
		e.object, e.problems = l.decoder.Decode(doc)
	}
	switch {
	case e.object != nil:
		e.key = e.object.Key
	case len(e.problems) > 0:
		ref := e.problems[0].Object
		e.key = config.KeyOf(ref)
		e.lost = ref.Name == "" && kind == "" && hasError(e.problems)
	}
	return e
}

func hasError(problems []mesh.Problem) bool {
	for _, p := range problems {
		if p.Severity == mesh.Error {
			return true
		}
	}
	return false
}

// step reads the files that are due and hands over the changes.
func (r *runner) step() {
	var tasks []task
	var gone []string
	most := math.MaxInt // at the start there is nothing else to delay
	if r.synced {
		most = inline
	}
	r.arriving = r.arrivals()
	for _, path := range slices.Sorted(maps.Keys(r.now)) {
		job := r.lane.pending[path]
		switch t := (task{path: path, kind: r.single[path], old: r.ledger.entries(path)}); {
		case job != nil:
			job.again = job.begun
		case r.outside[path], r.now[path] && r.isGone(path):
			gone = append(gone, path)
		case r.synced && r.isHeavy(t):
			r.lane.start(r.ctx, t, r.size(path))
		default:
			tasks = append(tasks, t)
		}
	}
	r.begin()
	for _, got := range r.lane.loader.all(tasks, most) {
		r.accept(got)
	}
	for _, path := range gone {
		r.leave(path)
	}
	r.hand()
}

func (r *runner) isGone(path string) bool {
	_, err := r.o.Files.Stat(path)
	return disk.Gone(err)
}

// isHeavy reports whether a file is more than the loop may read itself.
func (r *runner) isHeavy(t task) bool {
	size := r.size(t.path)
	return size > large || t.work(size) > inline
}

// size returns the present size of a file, in bytes.
func (r *runner) size(path string) int64 {
	info, err := r.o.Files.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// finished takes the result of a large file. A file that changed meanwhile is read again.
func (r *runner) finished(got loaded) {
	if again := r.lane.finish(r.ctx, got.path).again; again && !got.isPutOff {
		r.now[got.path] = false
		if r.isGone(got.path) {
			return
		}
	}
	r.accept(got)
}

// accept enters the content of a file into the ledger.
func (r *runner) accept(got loaded) {
	switch {
	case got.isPutOff:
		got.slow = got.work > huge
		r.lane.start(r.ctx, got.task, got.stamp.size)
		return
	case got.unstable:
		r.wait(got.path, r.o.Quiet)
		return
	case got.missing:
		if r.ledger.has(got.path) {
			r.leave(got.path)
		} else {
			r.heals(got.path)
		}
	case got.failed != nil:
		r.fails(got.path, false, got.failed)
		r.ledger.fail(got)
	default:
		r.heals(got.path)
		r.arrived(got.path, got.kind)
		r.ledger.replace(got.path, got.stamp, got.entries)
		delete(r.leaving, got.path)
	}
	delete(r.initial, got.path)
}

// hand gives what has changed to the sink.
func (r *runner) hand() {
	update, changed := r.ledger.flush()
	if !r.synced && len(r.initial) == 0 {
		r.synced, update.Synced, changed = true, true, true
	}
	if n := len(r.troubles); n != r.reportedTroubles {
		r.reportedTroubles = n
		r.o.Unreadable(n)
	}
	if changed {
		r.sink.Apply(update)
	}
}
