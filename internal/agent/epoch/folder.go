package epoch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"fairway/internal/disk"
	"fairway/internal/identity/safefile"
)

// folder is the folder for bootstraps.
type folder struct {
	files disk.Files
	path  string
	ours  bool // made here: removed when empty
	count int  // of files written so far
}

// openFolder makes the folder if it is missing, for this user alone: bootstraps hold secrets.
func openFolder(files disk.Files, path string) (*folder, error) {
	_, missing := os.Stat(path)
	if err := safefile.Folder(path); err != nil {
		return nil, &PlanError{fmt.Errorf("make the folder for Envoy's configuration: %w; name a writable one with --configPath", err)}
	}
	return &folder{files: files, path: path, ours: missing != nil}, nil
}

// closed reports whether only this user and root can replace the files in the folder.
func (f *folder) closed() bool {
	path, err := canonical(f.path, "")
	return err == nil && private(path)
}

// bootstrapName begins the names of files that Envoys are started with, checkedName those of files that are only validated.
const (
	bootstrapName = "envoy-rev"
	checkedName   = "envoy-checked"
)

// sweep removes what killed agents left behind: files that were never put in place, and bootstraps that no Envoy runs with.
func (f *folder) sweep() {
	path, err := canonical(f.path, "")
	if err != nil {
		return // nothing to find
	}
	entries, _ := os.ReadDir(path) // what cannot be listed cannot be swept
	used := inUse()
	for _, e := range entries {
		name := strings.TrimPrefix(e.Name(), ".")
		file := filepath.Join(path, e.Name())
		if !strings.HasPrefix(name, bootstrapName) && !strings.HasPrefix(name, checkedName) || used[file] {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && isOurs(info) {
			os.Remove(file)
		}
	}
}

// after numbers the next file above one that an earlier agent wrote.
func (f *folder) after(file string) {
	number := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), bootstrapName), filepath.Ext(file))
	if n, err := strconv.Atoi(number); err == nil {
		f.count = max(f.count, n+1)
	}
}

// writeNext writes the bootstrap of the next epoch into a file of its own.
func (f *folder) writeNext(p Plan) (path string, err error) {
	path, err = f.write(fmt.Sprintf("%s%d%s", bootstrapName, f.count, p.Suffix), p.Bootstrap)
	if err == nil {
		f.count++
	}
	return path, err
}

// checked has Envoy validate the plan's bootstrap and, if hot is set, say how it is hot-restarted. The file stays only if it is
// refused: the error names it.
func (f *folder) checked(ctx context.Context, p Plan, hot bool) (Plan, error) {
	path, err := f.write(checkedName+p.Suffix, p.Bootstrap)
	if err != nil {
		return p, err
	}
	p, err = p.check(ctx, path, hot)
	if err == nil {
		_ = f.files.Remove(path) // the next sweep does
	}
	return p, err
}

// write makes a file for this user alone, whole or not at all.
func (f *folder) write(name string, content []byte) (path string, err error) {
	tmp, err := f.files.Create(f.path, "."+name+"-") // 0600
	if err != nil {
		return "", &PlanError{fmt.Errorf("write Envoy's configuration: %w; name a writable folder with --configPath", err)}
	}
	_, err = tmp.Write(content)
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	path = filepath.Join(f.path, name)
	if err == nil {
		err = f.files.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = f.files.Remove(tmp.Name()) // if this fails, the next sweep does it
		return "", &PlanError{fmt.Errorf("write Envoy's configuration: %w; make room, or name another folder with --configPath", err)}
	}
	return path, nil
}

// close removes the folder if it was made here; it stays if another program put something there.
func (f *folder) close() {
	if f.ours {
		os.Remove(f.path)
	}
}
