package file

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"fairway/internal/config"
	"fairway/internal/mesh"
)

// stamp tells one content of a file from another without reading it.
type stamp struct {
	inode uint64
	size  int64
	mod   time.Time
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mod: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = sys.Ino
	}
	return s
}

// loaded is one file as it was read.
type loaded struct {
	path     string
	stamp    stamp
	docs     []config.Document
	results  []entry // one a document, as decoded
	entries  []entry // as they are to stand in the ledger
	failed   error   // it could not be read
	missing  bool    // there is no such file
	unstable bool    // it changed while it was read
}

// loadAll reads and decodes files on all cores, with results in the order of paths.
func loadAll(d *config.Decoder, single map[string]config.Kind, l *ledger, paths []string) []loaded {
	files := make([]loaded, len(paths))
	parallel(len(paths), func(i int) { files[i] = readFile(paths[i], single[paths[i]] != "") })
	type unit struct{ file, doc int }
	var units []unit
	for i := range files {
		files[i].results = make([]entry, len(files[i].docs))
		for j := range files[i].docs {
			units = append(units, unit{i, j})
		}
	}
	reuse := make([]map[string]*entry, len(paths))
	for i := range files {
		reuse[i] = l.byText(paths[i])
	}
	parallel(len(units), func(i int) {
		f := &files[units[i].file]
		f.results[units[i].doc] = decode(d, single[f.path], f.docs[units[i].doc], reuse[units[i].file])
	})
	for i := range files {
		f := &files[i]
		if f.failed != nil {
			f.results = []entry{unreadable(f.path, f.failed)}
		}
		f.entries = keepGood(l.entries(f.path), f.results)
	}
	return files
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

// readFile reads one file and takes it apart.
func readFile(path string, whole bool) loaded {
	out := loaded{path: path}
	data, st, err := readStable(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		out.missing = true
		return out
	case errors.Is(err, errChanging):
		out.unstable = true
		return out
	case err != nil:
		out.failed = err
		return out
	}
	out.stamp = st
	if whole {
		out.docs = wholeFile(path, data)
		return out
	}
	out.docs = config.Split(path, data)
	if len(out.docs) > 1 {
		for i := range out.docs { // one document kept must not keep its neighbours' text
			out.docs[i].Text = bytes.Clone(out.docs[i].Text)
		}
	}
	return out
}

// errChanging is a file that was written to while it was read.
var errChanging = errors.New("the file is being written")

// readStable reads a regular file that stays as it is meanwhile.
func readStable(path string) ([]byte, stamp, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold us up
	if err != nil {
		return nil, stamp{}, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return nil, stamp{}, err
	}
	if !before.Mode().IsRegular() {
		return nil, stamp{}, errors.New("it is not a regular file")
	}
	data := make([]byte, before.Size())
	n, err := io.ReadFull(f, data)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, stamp{}, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, stamp{}, err
	}
	if n < len(data) || stampOf(after) != stampOf(before) {
		return nil, stamp{}, errChanging
	}
	return data, stampOf(before), nil
}

// wholeFile is a file that is one document; an empty one too, which says nothing but that defaults hold.
func wholeFile(path string, data []byte) []config.Document {
	if docs := config.Split(path, data); len(docs) > 0 {
		return docs
	}
	return []config.Document{{File: path, Line: 1}}
}

func unreadable(path string, err error) entry {
	return entry{lost: true, problems: []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: "file", File: path, Line: 1}, Code: "Unreadable", Severity: mesh.Error,
		Message: "the file cannot be read: " + err.Error(), Fix: "check its permissions",
	}}}
}

// decode decodes one document, or takes the object that the same text gave before.
func decode(d *config.Decoder, kind config.Kind, doc config.Document, known map[string]*entry) entry {
	if old := known[string(doc.Text)]; old != nil && (old.line == doc.Line || len(old.problems) == 0) && old.object != nil && !old.lost {
		e := *old
		e.kept = false
		if e.line != doc.Line {
			moved := *old.object
			moved.Ref.Line, e.line, e.object = doc.Line, doc.Line, &moved
		}
		return e
	}
	e := entry{line: doc.Line, text: doc.Text}
	switch kind {
	case config.MeshConfig:
		e.object, e.problems = d.DecodeMeshConfig(doc)
	case config.MeshNetworks:
		e.object, e.problems = d.DecodeMeshNetworks(doc)
	default:
		e.object, e.problems = d.Decode(doc)
	}
	switch {
	case e.object != nil:
		e.key = e.object.Key
	case len(e.problems) > 0:
		ref := e.problems[0].Object
		e.key = config.Key{Kind: config.Kind(ref.Kind), Namespace: ref.Namespace, Name: ref.Name}
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
