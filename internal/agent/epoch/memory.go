package epoch

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// An Envoy that can be hot-restarted shares a small struct with its successor (source/server/hot_restart_impl.h, version 11): its
// own size in eight bytes, the version in eight, two locks, and last eight bytes of flags. The first flag means that an epoch is
// still initializing; the next one refuses to start while it is set, even if the epoch that set it has died.
const (
	memoryVersion = 11
	initializing  = 1
)

// memoryFile returns the file that the Envoys of a base id share.
func memoryFile(dir string, baseID uint32) string {
	return filepath.Join(dir, fmt.Sprintf("envoy_shared_memory_%d", uint64(baseID)*idsPerBase))
}

// clearInitializing removes the mark of a dead epoch. It may be called only when no epoch of this memory is initializing. It fails
// if the version of the memory is unknown; then only a new base id helps.
func clearInitializing(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open envoy's shared memory: %w", err)
	}
	defer f.Close()
	var head [16]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return fmt.Errorf("read envoy's shared memory %s: %w", path, err)
	}
	size, version := binary.NativeEndian.Uint64(head[:8]), binary.NativeEndian.Uint64(head[8:])
	info, err := f.Stat()
	if err != nil || version != memoryVersion || info.Size() != int64(size) || size < 24 {
		return fmt.Errorf("envoy's shared memory %s is of another kind (size %d, version %d)", path, size, version)
	}
	var flags [8]byte
	at := int64(size) - 8
	if _, err := f.ReadAt(flags[:], at); err != nil {
		return fmt.Errorf("read envoy's shared memory %s: %w", path, err)
	}
	binary.NativeEndian.PutUint64(flags[:], binary.NativeEndian.Uint64(flags[:])&^initializing)
	if _, err := f.WriteAt(flags[:], at); err != nil {
		return fmt.Errorf("write envoy's shared memory %s: %w", path, err)
	}
	return nil
}
