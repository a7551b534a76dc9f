package cache

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"fairway/internal/agent/relay/wire"
	"fairway/internal/disk"
)

// Writer identifies a session that writes to a cache; only one writes at a time.
type Writer uint64

// BatchID names a response that was written to a cache and not committed yet; 0 is none.
type BatchID uint64

// entry is the place of a resource in the file: the bytes of its Resource message.
type entry struct {
	version string
	at      int64
	size    int32
}

// batch is a response in the file that Envoy has not acknowledged.
type batch struct {
	typ     string
	at      int64 // of its record
	size    int   // of its payload
	items   []wire.Item
	removed []string
}

// Cache is a file with the resources that one node's Envoy has acknowledged. Memory holds names, versions and places,
// never bodies. Several sessions may read it at once, and the one that took it last writes. A nil cache keeps nothing.
type Cache struct {
	files disk.Files
	limit int64
	log   *slog.Logger

	mu      sync.Mutex
	path    string
	file    disk.Random
	node    [sha256.Size]byte
	end     int64 // of the file
	live    int64 // bytes of what the index points at
	index   map[string]map[string]entry
	pending map[BatchID]batch
	last    BatchID
	writer  Writer // of the session that took it last; 0: none
	again   int64  // minimum size for another rewrite after one has failed
	gone    bool   // closed, or given up
	current bool   // MarkUpToDate was called
}

// errTooBig is why a cache is given up when it grows over its limit.
var errTooBig = errors.New("it is larger than its limit")

// inFile returns a cache in an open file that has not been read or written yet.
func inFile(files disk.Files, path string, f disk.Random, limit int64, log *slog.Logger) *Cache {
	return &Cache{
		files:   files,
		path:    path,
		limit:   limit,
		log:     log,
		file:    f,
		index:   map[string]map[string]entry{},
		pending: map[BatchID]batch{},
	}
}

// Create makes an empty cache for a node, at a path where no other cache may be in use. The limit is in bytes.
func Create(files disk.Files, path string, node [sha256.Size]byte, limit int64, log *slog.Logger) (*Cache, error) {
	f, err := files.Make(path)
	if err != nil {
		return nil, err
	}
	c := inFile(files, path, f, limit, log)
	c.node = node
	if _, err := c.write(recordNode, 0, node[:]); err != nil {
		c.Discard()
		return nil, err
	}
	return c, nil
}

// Keeps reports whether resources of a type are kept. Secrets never are.
func Keeps(typ string) bool { return !strings.HasSuffix(typ, ".Secret") }

// Take makes the caller the writer. Responses that the writer before has not committed are dropped, and what it still writes is not
// kept: its Envoy is older, or its stream has ended and it is late to handle the last messages.
func (c *Cache) Take() Writer {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writer++
	clear(c.pending)
	return c.writer
}

// IsWriter reports whether a writer is still the cache's writer.
func (c *Cache) IsWriter(w Writer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writer == w
}

// Add writes a response; raw is its encoding. The caller calls Commit when Envoy acknowledges it, or Abort when Envoy refuses it. Add
// returns 0 if there is nothing to keep, or if by is not the writer.
func (c *Cache) Add(by Writer, raw []byte, r wire.Response) BatchID {
	if c == nil || !Keeps(r.Type) {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone || c.writer != by || c.has(r) {
		return 0
	}
	c.last++
	at, err := c.write(recordResponse, c.last, raw)
	if err != nil {
		c.giveUp(err)
		return 0
	}
	c.pending[c.last] = batch{r.Type, at, len(raw), r.Items, r.Removed}
	return c.last
}

// has reports whether a response holds nothing new: two sessions of a hot restart receive the same.
func (c *Cache) has(r wire.Response) bool {
	known := c.index[r.Type]
	for _, i := range r.Items {
		if e, ok := known[i.Name]; !ok || e.version != i.Version || i.Version == "" {
			return false
		}
	}
	for _, name := range r.Removed {
		if _, ok := known[name]; ok {
			return false
		}
	}
	return known != nil && len(c.pending) == 0
}

// Commit keeps a batch. It does nothing for 0, and for a batch that another writer has dropped.
func (c *Cache) Commit(id BatchID) {
	if c == nil || id == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.pending[id]
	if c.gone || !ok {
		return
	}
	if _, err := c.write(recordCommit, id, nil); err != nil {
		c.giveUp(err)
		return
	}
	c.apply(id, b)
	c.compact()
}

// Abort forgets a batch.
func (c *Cache) Abort(id BatchID) {
	if c == nil || id == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// apply enters a batch into the index.
func (c *Cache) apply(id BatchID, b batch) {
	delete(c.pending, id)
	known := c.index[b.typ]
	if known == nil {
		known = map[string]entry{}
		c.index[b.typ] = known
	}
	for _, name := range b.removed {
		c.live -= int64(known[name].size)
		delete(known, name)
	}
	for _, i := range b.items {
		c.live += int64(i.Size) - int64(known[i.Name].size)
		known[i.Name] = entry{i.Version, b.at + headSize + int64(i.At), int32(i.Size)}
	}
}

// Drop forgets resources. Names that are not kept are skipped.
func (c *Cache) Drop(by Writer, typ string, names []string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	known := c.index[typ]
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { _, ok := known[n]; return !ok })
	c.mu.Unlock()
	if len(names) == 0 {
		return
	}
	r := wire.Response{Type: typ, Removed: names}
	c.Commit(c.Add(by, r.Encode(nil, ""), r))
}

// Versions returns the versions of a type's resources by name, and whether the cache has the type.
func (c *Cache) Versions(typ string) (map[string]string, bool) {
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.index[typ]
	out := make(map[string]string, len(known))
	for name, e := range known {
		out[name] = e.version
	}
	return out, ok && !c.gone
}

// Read returns the Resource messages of the names that are kept, up to about chunk bytes in all, and how many of the names it read.
func (c *Cache) Read(typ string, names []string) (bodies [][]byte, items []wire.Versioned, took int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return nil, nil, len(names), nil
	}
	size := 0
	for _, name := range names {
		if size >= chunk {
			break
		}
		took++
		e, ok := c.index[typ][name]
		if !ok {
			continue
		}
		body := make([]byte, e.size)
		if _, err := c.file.ReadAt(body, e.at); err != nil {
			return nil, nil, 0, fmt.Errorf("read %s: %w", c.path, err)
		}
		bodies, items = append(bodies, body), append(items, wire.Versioned{Name: name, Version: e.version})
		size += len(body)
	}
	return bodies, items, took, nil
}

// slack is how many bytes a cache's file may have beyond twice the useful bytes before it is rewritten.
const slack = 4 << 20

// compact rewrites the cache if most of it is useless, and gives it up if it is too large. If the rewrite fails, the cache stays as
// it is while it is within its limit, and the rewrite is tried again when it has grown.
func (c *Cache) compact() {
	if c.live > c.limit {
		c.giveUp(errTooBig)
		return
	}
	over := c.end > c.limit+slack
	if !over && (c.end <= 2*c.live+slack || c.end < c.again) {
		return
	}
	switch err := c.rewrite(); {
	case err == nil:
		c.again = 0
	case over:
		c.giveUp(err)
	default:
		c.again = c.end + slack
		c.log.Warn("the cache of configuration cannot be written anew; it goes on as it is", "file", c.path, "error", err)
	}
}

// giveUp removes a cache after an error, of a full or broken disk for example: an incomplete cache is worse than none.
func (c *Cache) giveUp(err error) {
	c.log.Error("the cache of configuration is given up: an Envoy that starts while the control plane is away will have to wait for it",
		"file", c.path, "error", err)
	c.remove()
}

func (c *Cache) remove() {
	if c.gone {
		return
	}
	c.gone = true
	c.file.Close()
	_ = c.files.Remove(c.path) // nothing is lost
	c.index, c.pending = map[string]map[string]entry{}, map[BatchID]batch{}
}

// Discard removes the cache and its file.
func (c *Cache) Discard() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove()
}

// Close leaves the file for the next agent.
func (c *Cache) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		c.gone = true
		c.file.Close()
	}
}

// UsableBy reports whether the cache exists, and is this node's.
func (c *Cache) UsableBy(node [sha256.Size]byte) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.gone && c.node == node
}

// MoveTo renames the file, once it is safe on disk; a file of that name is replaced.
func (c *Cache) MoveTo(path string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return os.ErrClosed
	}
	if err := c.file.Sync(); err != nil {
		return err
	}
	if err := c.files.Rename(c.path, path); err != nil {
		return err
	}
	c.path = path
	return nil
}

// MarkUpToDate notes that the cache holds what an Envoy of this agent holds, and is not older.
func (c *Cache) MarkUpToDate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = true
}

// UpToDate reports whether MarkUpToDate was called. A cache that was opened is out of date at first.
func (c *Cache) UpToDate() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Path returns the path of the cache's file.
func (c *Cache) Path() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.path
}

// Summary returns the number of resources and the size of the file.
func (c *Cache) Summary() (names, bytes int64) {
	if c == nil {
		return 0, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, typ := range slices.Sorted(maps.Keys(c.index)) {
		names += int64(len(c.index[typ]))
	}
	return names, c.end
}
