package analyze

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/printable"
)

// Stdin is the path that means the standard input.
const Stdin = "-"

// Bounds on what one call reads.
const (
	maxFiles = 20_000
	maxTotal = 512 << 20 // bytes
)

// text is one file as it was read.
type text struct {
	name string // as problems call it
	docs []config.Document
}

// reading reads the files of one call. An error is kept, and the other files are still read.
type reading struct {
	stdin     io.Reader
	recursive bool
	texts     []text
	readFiles map[string]bool // a file counts once, whatever paths lead to it
	total     int
	errs      []error
}

// path reads a file, or the YAML and JSON files of a folder, and of the folders in it if r.recursive is set.
func (r *reading) path(path string) {
	if path == Stdin {
		r.take("standard input", func() ([]byte, error) {
			return io.ReadAll(io.LimitReader(r.stdin, disk.MaxFile+1))
		})
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		r.errs = append(r.errs, err)
	case info.IsDir():
		r.folder(path)
	default:
		r.file(path)
	}
}

func (r *reading) file(path string) {
	clean := filepath.Clean(path)
	if r.readFiles[clean] {
		return
	}
	r.readFiles[clean] = true
	r.take(clean, func() ([]byte, error) { return disk.Stream(clean, disk.MaxFile) })
}

func (r *reading) folder(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		info, err := os.Stat(path) // where a link leads
		switch {
		case err != nil:
			r.errs = append(r.errs, err)
		case info.IsDir() && e.IsDir() && r.recursive: // a folder that a link leads to may hold the link
			r.folder(path)
		case info.Mode().IsRegular() && holdsObjects(e.Name()):
			r.file(path)
		}
	}
}

// holdsObjects reports whether a file of that name is read when it is found in a folder.
func holdsObjects(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name)))
}

// take reads one text and splits it into documents.
func (r *reading) take(name string, read func() ([]byte, error)) {
	shown := printable.Text(name, printable.Long)
	if len(r.texts) == maxFiles || r.total > maxTotal {
		if r.total >= 0 {
			r.errs = append(r.errs, fmt.Errorf(
				"%s and the files after it are not read: at most %d files, of %d MiB in all, are read at once",
				shown, maxFiles, maxTotal>>20))
		}
		r.total = -1
	}
	if r.total < 0 {
		return
	}
	data, err := read()
	if err == nil && len(data) > disk.MaxFile {
		err = fmt.Errorf("%s: it has more than %d bytes", shown, disk.MaxFile)
	}
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	docs := config.Split(shown, data)
	if len(docs) > config.MaxDocuments {
		r.errs = append(r.errs, fmt.Errorf("%s: it holds more than %d documents", shown, config.MaxDocuments))
		return
	}
	r.total += len(data)
	r.texts = append(r.texts, text{shown, docs})
}

// read reads all paths. The error joins what could not be read.
func read(paths []string, recursive bool, stdin io.Reader) ([]text, error) {
	r := &reading{stdin: stdin, recursive: recursive, readFiles: map[string]bool{}}
	for _, path := range paths {
		r.path(path)
	}
	return r.texts, errors.Join(r.errs...)
}

// Documents returns the documents of the files that paths name, and of the files in folders that they name; Stdin is the standard input.
// The error names what could not be read.
func Documents(paths []string, recursive bool, stdin io.Reader) ([]config.Document, error) {
	texts, err := read(paths, recursive, stdin)
	var out []config.Document
	for _, t := range texts {
		out = append(out, t.docs...)
	}
	return out, err
}
