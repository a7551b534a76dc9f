package lasting

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"fairway/internal/config"
)

// Files tells where the last rows of sources are saved, with a file for each source.
type Files struct {
	Dir    string // empty: nothing is kept
	Suffix string // of the files' names
	Prefix string // that all the sources' names have, and the files' do not
	// Rules judges rules that are read back; nil: rules are not kept.
	Rules *config.Decoder
}

// path is the file of a source, whatever its name holds.
func (f Files) path(source string) string {
	return filepath.Join(f.Dir, url.PathEscape(strings.TrimPrefix(source, f.Prefix))+f.Suffix)
}

// remove takes a source's file away.
func (f Files) remove(source string, log *slog.Logger) {
	if f.Dir == "" {
		return
	}
	if err := os.Remove(f.path(source)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the stored state of a source cannot be removed", "source", source, "error", err)
	}
}

// only takes away the files of all sources but some.
func (f Files) only(kept func(source string) bool, log *slog.Logger) {
	if f.Dir == "" {
		return
	}
	entries, _ := os.ReadDir(f.Dir) // a folder that is not there has none
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), f.Suffix)
		if source, err := url.PathUnescape(name); is && err == nil && !kept(f.Prefix+source) {
			f.remove(f.Prefix+source, log)
		}
	}
}
