package epoch

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// idsPerBase is by what Envoy multiplies a base id to name its sockets and its memory.
const idsPerBase = 10

// lastBaseID is the largest whose product fits into 32 bits, as Envoy computes it.
const lastBaseID = (1<<32 - 1 - idsPerBase) / idsPerBase

// family is the Envoys of one base id, claimed for one agent. The supervisor's loop owns it.
type family struct {
	baseID  uint32
	dir     string // of the shared memory
	next    uint32 // epoch
	members int    // processes that have not ended

	lock   *os.File     // held while claimed
	socket net.Listener // likewise
}

// errTaken says that a base id belongs to somebody else.
var errTaken = errors.New("the base id is taken")

// claimAny claims the first free base id from first on. Ids are small and are used again, so that agents that were killed leave no growing heap of memory behind.
func claimAny(dir string, first uint32) (*family, error) {
	const tries = 4096
	for i := range uint32(tries) {
		f, err := claim(dir, (first+i)%lastBaseID)
		if errors.Is(err, errTaken) {
			continue
		}
		return f, err
	}
	return nil, fmt.Errorf("no free base id from %d on within %d: are there that many agents? name one with --base-id", first, tries)
}

// claim takes one base id: no other agent holds it, no Envoy uses its sockets in this network namespace or, as far as its memory tells, in another.
func claim(dir string, id uint32) (*family, error) {
	lock, fresh, err := lockFile(filepath.Join(dir, fmt.Sprintf("fairway_base_id_%d", id)))
	if err != nil {
		return nil, err
	}
	f := &family{baseID: id, dir: dir, lock: lock}
	if err := f.checkFree(fresh); err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// lockFile makes a file and locks it. fresh says that it was not there: somebody who left it behind was killed.
func lockFile(path string) (f *os.File, fresh bool, err error) {
	for {
		_, missing := os.Stat(path)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
		if errors.Is(err, os.ErrPermission) {
			return nil, false, errTaken // another user's
		}
		if err != nil {
			return nil, false, fmt.Errorf("claim a base id: %w", err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			return nil, false, errTaken
		}
		if sameFile(f, path) {
			return f, missing != nil, nil
		}
		f.Close() // its owner removed it between open and lock
	}
}

// reclaim takes the base id of Envoys that an agent left behind: its lock went with it.
func reclaim(dir string, id uint32) (*family, error) {
	lock, _, err := lockFile(filepath.Join(dir, fmt.Sprintf("fairway_base_id_%d", id)))
	if err != nil {
		return nil, err
	}
	f := &family{baseID: id, dir: dir, lock: lock}
	if f.socket, err = meet(id); err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// meet is where agents of containers find each other that share a network but no memory.
func meet(id uint32) (net.Listener, error) {
	l, err := net.Listen("unix", fmt.Sprintf("@fairway_base_id_%d", id))
	if err != nil {
		return nil, errTaken
	}
	return l, nil
}

func sameFile(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// checkFree completes a claim whose lock is held.
func (f *family) checkFree(fresh bool) error {
	// Memory without a lock file is an Envoy's that no agent started; maybe in a network namespace that shares this folder.
	if _, err := os.Stat(memoryFile(f.dir, f.baseID)); err == nil && fresh {
		return errTaken
	}
	used, err := envoySockets(f.baseID)
	if err != nil || used {
		return errors.Join(err, errTaken)
	}
	f.socket, err = meet(f.baseID)
	return err
}

// envoySockets says whether an Envoy of this network namespace uses a base id.
func envoySockets(id uint32) (bool, error) {
	file, err := os.Open("/proc/net/unix")
	if err != nil {
		return false, fmt.Errorf("list the unix sockets: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		_, name, ok := strings.Cut(lines.Text(), " @envoy_domain_socket_")
		if !ok {
			continue
		}
		number := strings.TrimRight(name[strings.LastIndexByte(name, '_')+1:], "@")
		var n uint64
		if _, err := fmt.Sscan(number, &n); err == nil && n/idsPerBase == uint64(id) {
			return true, nil
		}
	}
	return false, lines.Err()
}

// release gives the base id back, and removes what Envoys of it left. It may be called when none of them runs any more.
func (f *family) release() {
	if f.socket != nil { // the claim was complete: the memory is ours
		os.Remove(memoryFile(f.dir, f.baseID))
		f.socket.Close()
	}
	os.Remove(f.lock.Name()) // before the lock goes: who opens it after this makes a new one
	f.lock.Close()
}
