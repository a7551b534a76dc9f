// Package watch tells when the content of files has changed, and has stopped changing.
//
// Content is read, not events: files are replaced by renames, by links that move (Kubernetes' volumes), written in
// pieces, missing for a while; and a few small files read once a second cost nothing. Large files are told apart by
// size, time and inode. The package must not know what the files mean.
package watch

import (
	"context"
	"fmt"
	"hash/maphash"
	"os"
	"syscall"
	"time"

	"fairway/internal/identity/safefile"
)

// large is the size from which content is not read.
const large = 1 << 20

// Files calls changed each time that the files of a list, asked for anew each time, have another content than before,
// and had that same content twice in a row: a file that is being written is not looked at. It returns when ctx ends.
func Files(ctx context.Context, every time.Duration, list func() []string, changed func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	seed := maphash.MakeSeed()
	known := print(seed, list())
	last := known
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := print(seed, list())
		if now == last && now != known {
			known = now
			changed()
		}
		last = now
	}
}

// print is the files' fingerprint.
func print(seed maphash.Seed, files []string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, name := range files {
		fmt.Fprintf(&h, "%q ", name)
		one(&h, name)
	}
	return h.Sum64()
}

func one(h *maphash.Hash, name string) {
	info, err := os.Stat(name)
	if err != nil {
		return // a missing file is a content of its own
	}
	if info.Size() > large || !info.Mode().IsRegular() {
		fmt.Fprint(h, info.Size(), info.ModTime().UnixNano(), inode(info))
		return
	}
	content, err := safefile.Read(name, large)
	if err != nil { // unreadable, or another file by now
		fmt.Fprint(h, err, info.Size(), info.ModTime().UnixNano(), inode(info))
		return
	}
	fmt.Fprint(h, len(content))
	_, _ = h.Write(content)
}

func inode(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
