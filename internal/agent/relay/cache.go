package relay

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

	"fairway/internal/disk"
)

// writer identifies a session that writes to a cache; only one writes at a time.
type writer uint64

// batchID names a response that was written to a cache and not committed yet; 0 is none.
type batchID uint64

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
	items   []item
	removed []string
}

// cache is a file with the resources that one node's Envoy has acknowledged. Memory holds names, versions and places,
// never bodies. Several sessions may read it at once, and the one that took it last writes. A nil cache keeps nothing.
type cache struct {
	files disk.Files
	path  string
	limit int64
	log   *slog.Logger

	mu       sync.Mutex
	file     disk.Random
	node     [sha256.Size]byte
	end      int64 // of the file
	live     int64 // bytes of what the index points at
	index    map[string]map[string]entry
	pending  map[batchID]batch
	last     batchID
	writer   writer // of the session that took it last; 0: none
	again    int64  // minimum size for another rewrite after one has failed
	gone     bool   // closed, or given up
	upToDate bool   // it holds what an Envoy of this agent holds, and is not older
}

// errTooBig is why a cache is given up when it grows over its limit.
var errTooBig = errors.New("it is larger than its limit")

// inFile returns a cache in an open file that has not been read or written yet.
func inFile(files disk.Files, path string, f disk.Random, limit int64, log *slog.Logger) *cache {
	return &cache{
		files:   files,
		path:    path,
		limit:   limit,
		log:     log,
		file:    f,
		index:   map[string]map[string]entry{},
		pending: map[batchID]batch{},
	}
}

// createCache makes an empty cache for a node.
func createCache(files disk.Files, path string, node [sha256.Size]byte, limit int64, log *slog.Logger) (*cache, error) {
	f, err := files.Make(path)
	if err != nil {
		return nil, err
	}
	c := inFile(files, path, f, limit, log)
	c.node = node
	if _, err := c.write(recordNode, 0, node[:]); err != nil {
		c.discard()
		return nil, err
	}
	return c, nil
}

// cached reports whether a type is kept: keys never are.
func cached(typ string) bool { return !strings.HasSuffix(typ, ".Secret") }

// take makes the caller the writer. Responses that the writer before has not committed are dropped, and what it still writes is not
// kept: its Envoy is older, or its stream has ended and it is late to handle the last messages.
func (c *cache) take() writer {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writer++
	clear(c.pending)
	return c.writer
}

// isFor reports whether a writer is still the cache's writer.
func (c *cache) isFor(w writer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writer == w
}

// add writes a response. It is kept once committed.
func (c *cache) add(by writer, raw []byte, r response) batchID {
	if c == nil || !cached(r.typ) {
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
	c.pending[c.last] = batch{r.typ, at, len(raw), r.items, r.removed}
	return c.last
}

// has reports whether a response holds nothing new: two sessions of a hot restart receive the same.
func (c *cache) has(r response) bool {
	known := c.index[r.typ]
	for _, i := range r.items {
		if e, ok := known[i.name]; !ok || e.version != i.version || i.version == "" {
			return false
		}
	}
	for _, name := range r.removed {
		if _, ok := known[name]; ok {
			return false
		}
	}
	return known != nil && len(c.pending) == 0
}

// commit keeps a batch.
func (c *cache) commit(id batchID) {
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

// abort forgets a batch.
func (c *cache) abort(id batchID) {
	if c == nil || id == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// apply enters a batch into the index.
func (c *cache) apply(id batchID, b batch) {
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
		c.live += int64(i.size) - int64(known[i.name].size)
		known[i.name] = entry{i.version, b.at + headSize + int64(i.at), int32(i.size)}
	}
}

// drop forgets resources.
func (c *cache) drop(by writer, typ string, names []string) {
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
	r := response{typ: typ, removed: names}
	c.commit(c.add(by, r.encode(nil, ""), r))
}

// versions returns the versions of a type's resources by name, and whether the cache has the type.
func (c *cache) versions(typ string) (map[string]string, bool) {
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

// read returns the Resource messages of the names that are kept, up to about limit bytes in all, and how many of the names it read.
func (c *cache) read(typ string, names []string, limit int) (bodies [][]byte, items []versioned, took int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return nil, nil, len(names), nil
	}
	size := 0
	for _, name := range names {
		if size >= limit {
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
		bodies, items = append(bodies, body), append(items, versioned{name, e.version})
		size += len(body)
	}
	return bodies, items, took, nil
}

// slack is how many bytes a cache's file may have beyond twice the useful bytes before it is rewritten.
const slack = 4 << 20

// compact rewrites the cache if most of it is useless, and gives it up if it is too large. If the rewrite fails, the cache stays as
// it is while it is within its limit, and the rewrite is tried again when it has grown.
func (c *cache) compact() {
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
func (c *cache) giveUp(err error) {
	c.log.Error("the cache of configuration is given up: an Envoy that starts while the control plane is away will have to wait for it",
		"file", c.path, "error", err)
	c.remove()
}

func (c *cache) remove() {
	if c.gone {
		return
	}
	c.gone = true
	c.file.Close()
	_ = c.files.Remove(c.path) // nothing is lost
	c.index, c.pending = map[string]map[string]entry{}, map[batchID]batch{}
}

// discard removes the cache and its file.
func (c *cache) discard() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove()
}

// close leaves the file for the next agent.
func (c *cache) close() {
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

// usable reports whether the cache exists, and is this node's.
func (c *cache) usable(node [sha256.Size]byte) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.gone && c.node == node
}

// moveTo renames the cache; a file of that name is replaced.
func (c *cache) moveTo(path string) error {
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

// summary returns the number of resources and the size of the file.
func (c *cache) summary() (names, bytes int64) {
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
