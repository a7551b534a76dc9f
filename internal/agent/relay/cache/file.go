package cache

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"maps"
	"slices"

	"fairway/internal/agent/relay/wire"
	"fairway/internal/disk"
)

// A cache's file is a sequence of records, each a head and a payload. The head holds the payload's size and the checksum of
// everything after it, each of four bytes, little-endian; then the kind, one byte; then the number of the batch, eight bytes. A
// record that is cut off or has a wrong checksum ends the file.
const (
	recordNode     = 'n' // the first: payload is the hash of the node's message
	recordResponse = 'r' // payload is a DeltaDiscoveryResponse
	recordCommit   = 'c' // the batch of this number is in force
)

const headSize = 4 + 4 + 1 + 8

// record puts a head before a payload.
func record(kind byte, id BatchID, payload []byte) []byte {
	out := make([]byte, headSize, headSize+len(payload))
	binary.LittleEndian.PutUint32(out, uint32(len(payload)))
	out[8] = kind
	binary.LittleEndian.PutUint64(out[9:], uint64(id))
	out = append(out, payload...)
	binary.LittleEndian.PutUint32(out[4:], crc32.ChecksumIEEE(out[8:]))
	return out
}

// write appends a record and returns where it begins.
func (c *Cache) write(kind byte, id BatchID, payload []byte) (int64, error) {
	at := c.end
	if _, err := c.file.WriteAt(record(kind, id, payload), at); err != nil {
		return 0, err
	}
	c.end += headSize + int64(len(payload))
	return at, nil
}

// ErrNotCache is the error of Open for a file that no cache wrote.
var ErrNotCache = errors.New("no cache, or of another kind")

// Open reads the cache that an earlier agent left. It cuts off everything from the first record that is not whole. A file that
// cannot be read to its end stays as it is.
func Open(files disk.Files, path string, limit int64, log *slog.Logger) (*Cache, error) {
	f, err := files.Edit(path)
	if err != nil {
		return nil, err
	}
	c := inFile(files, path, f, limit, log)
	if err := c.load(); err != nil {
		f.Close()
		return nil, err
	}
	clear(c.pending) // they will never be acknowledged
	if err := f.Truncate(c.end); err != nil {
		f.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cache) load() error {
	info, err := c.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return ErrNotCache
	}
	in := bufio.NewReaderSize(c.file, 64<<10)
	kind, _, payload, err := readRecord(in, c.payloadLimit(info.Size()))
	switch {
	case err != nil && !torn(err):
		return err
	case err != nil, kind != recordNode, len(payload) != sha256.Size:
		return ErrNotCache
	}
	copy(c.node[:], payload)
	c.end = headSize + int64(len(payload))
	for {
		if err := c.next(in, info.Size()); torn(err) {
			return nil // the rest was not written whole
		} else if err != nil {
			return err
		}
	}
}

// payloadLimit is how many bytes the payload of the record at the cache's end may have, in a file of a size.
func (c *Cache) payloadLimit(size int64) int64 { return min(c.limit+slack, size-c.end-headSize) }

// torn reports whether an error means the end of the whole records, and not that reading failed before it.
func torn(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrNotCache)
}

// next applies one record. Its error is torn if there is none.
func (c *Cache) next(in io.Reader, size int64) error {
	kind, id, payload, err := readRecord(in, c.payloadLimit(size))
	if err != nil {
		return err
	}
	if !c.replay(kind, id, payload) {
		return ErrNotCache
	}
	c.end += headSize + int64(len(payload))
	return nil
}

// replay applies a record; false if it is invalid.
func (c *Cache) replay(kind byte, id BatchID, payload []byte) bool {
	switch kind {
	case recordResponse:
		r, err := wire.DecodeResponse(payload)
		if err != nil {
			return false
		}
		c.pending[id] = batch{r.Type, c.end, len(payload), r.Items, r.Removed}
		c.last = max(c.last, id)
	case recordCommit:
		if b, ok := c.pending[id]; ok {
			c.apply(id, b)
		}
	default:
		return false
	}
	return true
}

// readRecord reads a record; its payload may have at most that many bytes.
func readRecord(in io.Reader, most int64) (kind byte, id BatchID, payload []byte, err error) {
	var head [headSize]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, 0, nil, err
	}
	size := int64(binary.LittleEndian.Uint32(head[:]))
	if size > most {
		return 0, 0, nil, ErrNotCache
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(in, payload); err != nil {
		return 0, 0, nil, err
	}
	sum := crc32.Update(crc32.ChecksumIEEE(head[8:]), crc32.IEEETable, payload)
	if sum != binary.LittleEndian.Uint32(head[4:]) {
		return 0, 0, nil, ErrNotCache
	}
	return head[8], BatchID(binary.LittleEndian.Uint64(head[9:])), payload, nil
}

// chunk is the approximate size of a response from the cache, in the file and to Envoy.
const chunk = 1 << 20

// rewrite copies the useful records to a new file, which replaces the old one. The caller holds mu.
func (c *Cache) rewrite() error {
	next, err := Create(c.files, c.path+".tidy", c.node, c.limit, c.log)
	if err != nil {
		return err
	}
	if err = c.copyTo(next); err == nil {
		err = next.MoveTo(c.path)
	}
	if err != nil {
		next.Discard()
		return err
	}
	c.file.Close()
	c.file, c.end, c.live, c.index, c.pending, c.last = next.file, next.end, next.live, next.index, next.pending, next.last
	return nil
}

func (c *Cache) copyTo(next *Cache) error {
	next.last = c.last
	for _, typ := range slices.Sorted(maps.Keys(c.index)) {
		if err := c.copyType(next, typ); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.pending)) {
		b := c.pending[id]
		payload := make([]byte, b.size)
		if _, err := c.file.ReadAt(payload, b.at+headSize); err != nil {
			return err
		}
		at, err := next.write(recordResponse, id, payload)
		if err != nil {
			return err
		}
		b.at = at
		next.pending[id] = b
	}
	return nil
}

func (c *Cache) copyType(next *Cache, typ string) error {
	known := c.index[typ]
	names := slices.Sorted(maps.Keys(known))
	for first := true; first || len(names) > 0; first = false {
		var bodies [][]byte
		size := 0
		for size < chunk && len(names) > 0 {
			e := known[names[0]]
			body := make([]byte, e.size)
			if _, err := c.file.ReadAt(body, e.at); err != nil {
				return err
			}
			bodies, names, size = append(bodies, body), names[1:], size+len(body)
		}
		raw := wire.Response{Type: typ}.Encode(bodies, "")
		r, err := wire.DecodeResponse(raw)
		if err != nil {
			return err
		}
		next.last++
		id := next.last
		at, err := next.write(recordResponse, id, raw)
		if err != nil {
			return err
		}
		if _, err := next.write(recordCommit, id, nil); err != nil {
			return err
		}
		next.apply(id, batch{typ, at, len(raw), r.Items, r.Removed})
	}
	return nil
}
