// Package folder reads and writes objects in the files of a folder that a control plane reads (--configDir). An object is changed in its
// document: the other documents of the file, and comments between them, stay as they are. It must not know control planes.
package folder

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/store"
)

// Bounds of the reads.
const (
	maxFiles = 20_000
	maxTotal = 512 << 20 // bytes
)

// Folder is a folder of rules. It is made with Open.
type Folder struct {
	path    string
	decoder *config.Decoder
	lock    *os.File
}

// Open locks the folder against other writers of this kind, until Close.
func Open(path string, d *config.Decoder) (*Folder, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--folder: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", path)
	}
	if err == nil {
		err = disk.Lock(f, true)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("--folder: %w", err)
	}
	return &Folder{path, d, f}, nil
}

// Close lets other writers in.
func (f *Folder) Close() { f.lock.Close() }

// place is where an object is.
type place struct {
	file       string
	start, end int // of its document, in the file; end 0: it is a part of a document
	text       []byte
}

// revision is the version of a text: a number that another text does not have.
func revision(text []byte) int64 {
	sum := sha256.Sum256(text)
	return int64(binary.BigEndian.Uint64(sum[:8])>>1 | 1)
}

// index reads all files. Documents without a valid object count too, if they have a kind and a name.
func (f *Folder) index() (map[config.Key]place, error) {
	out := map[config.Key]place{}
	files, total := 0, 0
	err := filepath.WalkDir(f.path, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != f.path && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))):
			return nil
		}
		data, err := disk.Stream(path, disk.MaxFile)
		if err != nil {
			return err
		}
		if files, total = files+1, total+len(data); files > maxFiles || total > maxTotal {
			return fmt.Errorf("%s has more than %d files, or than %d MiB", f.path, maxFiles, maxTotal>>20)
		}
		for key, at := range f.documents(path, data) {
			if other, twice := out[key]; twice && other.file != path {
				return fmt.Errorf("%s is in %s and in %s; remove one", key, other.file, path)
			}
			out[key] = at
		}
		return nil
	})
	return out, err
}

// documents returns the objects of a file.
func (f *Folder) documents(path string, data []byte) map[config.Key]place {
	out := map[config.Key]place{}
	docs := config.Split(path, data)
	if len(docs) > config.MaxDocuments {
		return out // the control plane refuses the file
	}
	for _, doc := range docs {
		key, is := f.keyOf(doc)
		if !is {
			continue
		}
		at := place{file: path, text: bytes.TrimRight(doc.Text, " \t\r\n")}
		start := lineStart(data, doc.Line)
		whole := strings.ToLower(filepath.Ext(path)) != ".json" || len(docs) == 1
		if whole && start >= 0 && bytes.HasPrefix(data[start:], at.text) {
			at.start, at.end = start, start+len(at.text)
		}
		out[key] = at
	}
	return out
}

func (f *Folder) keyOf(doc config.Document) (config.Key, bool) {
	if o, _ := f.decoder.Decode(doc); o != nil {
		return o.Key, true
	}
	tree, _ := doc.Tree()
	object, _ := tree.(map[string]any)
	meta, _ := object["metadata"].(map[string]any)
	word, _ := object["kind"].(string)
	name, _ := meta["name"].(string)
	kind, known := config.KindCalled(word, store.Kinds())
	if !known || name == "" || store.Single(kind) {
		return config.Key{}, false
	}
	key := config.Key{Kind: kind, Name: name}
	if !kind.ClusterWide() {
		namespace, _ := meta["namespace"].(string)
		key.Namespace = cmp.Or(namespace, "default")
	}
	return key, true
}

// lineStart returns where a line begins; -1: there are fewer lines.
func lineStart(data []byte, line int) int {
	at := 0
	if bytes.HasPrefix(data, []byte("\ufeff")) {
		at = len("\ufeff")
	}
	for ; line > 1; line-- {
		i := bytes.IndexByte(data[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
	}
	return at
}

// Read returns an item for each key; one that is not there has the revision 0.
func (f *Folder) Read(_ context.Context, keys []config.Key) ([]store.Item, error) {
	all, err := f.index()
	if err != nil {
		return nil, err
	}
	out := make([]store.Item, len(keys))
	for i, key := range keys {
		out[i] = store.Item{Key: key}
		if at, has := all[key]; has {
			out[i].Text, out[i].Revision = at.text, revision(at.text)
		}
	}
	return out, nil
}

// Get reads one object; false: there is none.
func (f *Folder) Get(ctx context.Context, key config.Key) (store.Item, bool, error) {
	items, err := f.Read(ctx, []config.Key{key})
	if err != nil || items[0].Revision == 0 {
		return store.Item{}, false, err
	}
	return items[0], true, nil
}

// List returns the objects of some kinds, by kind, namespace and name; namespace empty: of all.
func (f *Folder) List(_ context.Context, kinds []config.Kind, namespace string) ([]store.Item, error) {
	all, err := f.index()
	if err != nil {
		return nil, err
	}
	var out []store.Item
	for key, at := range all {
		if slices.Contains(kinds, key.Kind) && (namespace == "" || key.Namespace == "" || key.Namespace == namespace) {
			out = append(out, store.Item{Key: key, Text: at.text, Revision: revision(at.text)})
		}
	}
	slices.SortFunc(out, func(a, b store.Item) int {
		x, y := a.Key, b.Key
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return out, nil
}

// Form returns a document as it is kept: as the user wrote it, with its namespace, and without the fields that others write.
func (f *Folder) Form(doc config.Document, key config.Key, _ store.Item) ([]byte, error) {
	text, err := store.Stored(doc, key, "")
	return bytes.TrimRight(text, " \t\r\n"), err
}

// Commit writes changes, each file as a whole. It writes nothing if one of them is not valid, or is of another version than the file has.
func (f *Folder) Commit(_ context.Context, changes []store.Change) (int64, error) {
	all, err := f.index()
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, c := range changes {
		at, has := all[c.Key]
		is := int64(0)
		if has {
			is = revision(at.text)
		}
		switch {
		case is != c.Was:
			errs = append(errs, store.Conflict{Key: c.Key, Was: c.Was, Is: is})
		case has && at.end == 0:
			errs = append(errs, fmt.Errorf("%s is a part of a list, or of a file of JSON: change it in %s", c.Key, at.file))
		case c.Text != nil:
			if _, problems := store.Decode(f.decoder, c.Key, "", c.Text); slices.ContainsFunc(problems, isError) {
				errs = append(errs, store.Invalid{Key: c.Key, Problems: problems})
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	last := int64(0)
	for _, c := range changes {
		if err := f.write(c, all); err != nil {
			return last, err
		}
		if c.Text != nil {
			last = revision(c.Text)
		}
	}
	return last, nil
}

func isError(p mesh.Problem) bool { return p.Severity == mesh.Error }

// write makes one change. It looks the object up again in its file, because an earlier change may have moved it, and notes in all where the
// object is then.
func (f *Folder) write(c store.Change, all map[config.Key]place) error {
	at, has := all[c.Key]
	if !has {
		path, err := f.free(c.Key)
		if err != nil || c.Text == nil {
			return err
		}
		after := append(slices.Clone(c.Text), '\n')
		all[c.Key] = f.documents(path, after)[c.Key]
		return replace(path, after, 0o644)
	}
	data, err := disk.Stream(at.file, disk.MaxFile)
	if err != nil {
		return err
	}
	now, has := f.documents(at.file, data)[c.Key]
	if !has || now.end == 0 || !bytes.Equal(now.text, at.text) {
		return fmt.Errorf("%s was changed meanwhile: try it again", at.file)
	}
	at = now
	info, err := os.Stat(at.file)
	if err != nil {
		return err
	}
	text := c.Text
	if text != nil && strings.ToLower(filepath.Ext(at.file)) == ".json" {
		if text, err = asJSON(text); err != nil {
			return fmt.Errorf("%s: %w", at.file, err)
		}
	}
	after := slices.Concat(data[:at.start], text, data[at.end:])
	if is, has := f.documents(at.file, after)[c.Key]; has {
		all[c.Key] = is
	} else {
		delete(all, c.Key)
	}
	if c.Text == nil && len(config.Split(at.file, after)) == 0 && !bytes.Contains(after, []byte("#")) {
		return os.Remove(at.file)
	}
	return replace(at.file, after, info.Mode().Perm())
}

// asJSON returns a document as a file of JSON has it. JSON has no comments: the text loses its own.
func asJSON(text []byte) ([]byte, error) {
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = json.Indent(&b, raw, "", "  ")
	return b.Bytes(), err
}

// free returns the path of a new file for an object.
func (f *Folder) free(key config.Key) (string, error) {
	stem := strings.ToLower(string(key.Kind)) + "-" + strings.TrimPrefix(key.Namespace+"-"+key.Name, "-")
	if !printable.IsName(stem, 200) || strings.Contains(stem, "/") {
		return "", fmt.Errorf("%s: its name is none of a file", key)
	}
	for i := 1; i < 100; i++ {
		path := filepath.Join(f.path, stem+".yaml")
		if i > 1 {
			path = filepath.Join(f.path, fmt.Sprintf("%s-%d.yaml", stem, i))
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: there are 99 files called %s: make room for one more", key, stem)
}

// replace writes a file at once: a control plane never reads half of it. It follows a link to the file.
func replace(path string, data []byte, mode os.FileMode) error {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	t, err := os.CreateTemp(filepath.Dir(path), ".pilotctl-*")
	if err != nil {
		return err
	}
	_, err = t.Write(data)
	err = errors.Join(err, t.Chmod(mode), t.Sync(), t.Close())
	if err == nil {
		err = os.Rename(t.Name(), path)
	}
	if err != nil {
		_ = os.Remove(t.Name()) // it may be gone
	}
	return err
}
