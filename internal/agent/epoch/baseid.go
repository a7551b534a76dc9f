package epoch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"fairway/internal/disk"
)

// idsPerBase is the factor that Envoy multiplies a base id with to name its sockets and its memory.
const idsPerBase = 10

// lastBaseID is the largest base id that can be multiplied in 32 bits, as Envoy computes it.
const lastBaseID = (1<<32 - 1 - idsPerBase) / idsPerBase

// family is the Envoys of one base id, claimed for one agent. The supervisor's loop owns it.
type family struct {
	baseID  uint32
	dir     string // of the shared memory
	sockets string // what the names of their sockets begin with; empty: abstract ones, of an Envoy that an earlier version's agent started
	next    uint32 // epoch
	members int    // processes that have not ended

	lock    *os.File // held while claimed; nil where a stranger has the lock's name
	claimed bool     // completely: the memory and the sockets are its own
}

// bases is where base ids are claimed.
type bases struct {
	memory string // the folder of shared memory, and of the locks
	own    string // the agent's folder, for sockets
}

// baseIDInUseError says that a base id is in use.
type baseIDInUseError struct {
	id      uint32
	by      string // what can be seen of who has it
	foreign bool   // another user has it: it need not follow the locks, and its operator cannot be told to choose another one
}

func (e *baseIDInUseError) Error() string { return fmt.Sprintf("base id %d is taken: %s", e.id, e.by) }

// claimAny tries inOrder small ids first: they are used again, so killed agents leave no growing heap of memory behind. Then it
// tries atRandom ids among all: other users cannot have taken them all.
const (
	inOrder  = 4096
	atRandom = 64
)

// claimAny claims the first free base id from first on. It also returns how many it skipped because other users have their names,
// and the first of these errors.
func (b bases) claimAny(first uint32) (f *family, strangers int, stranger error, err error) {
	running := sync.OnceValue(runningIDs)
	for i := range uint32(inOrder + atRandom) {
		id := (first + i) % lastBaseID
		if i >= inOrder {
			id = rand.Uint32N(lastBaseID)
		}
		f, err = b.claimUnless(id, running)
		taken := (*baseIDInUseError)(nil)
		if !errors.As(err, &taken) {
			return f, strangers, stranger, err
		}
		if taken.foreign {
			strangers++
			stranger = firstError(stranger, err)
		}
	}
	return nil, strangers, stranger, fmt.Errorf("no free base id among %d; the last one tried: %w", inOrder+atRandom, err)
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// claim claims one base id if no other agent holds it, and its memory and sockets are free. A *baseIDInUseError names the holder.
func (b bases) claim(id uint32) (*family, error) { return b.claimUnless(id, runningIDs) }

// claimUnless claims a base id that no running Envoy uses. It leaves the lock of a used one alone: the agent of these Envoys was
// killed, and the next one takes them over by it.
func (b bases) claimUnless(id uint32, running func() map[uint32]int) (*family, error) {
	if _, err := os.Lstat(b.lockFile(id)); err == nil {
		if pid, runs := running()[id]; runs {
			return nil, &baseIDInUseError{id, fmt.Sprintf("process %d is an Envoy of it", pid), false}
		}
	}
	lock, fresh, err := b.lock(id)
	if err != nil {
		return nil, err
	}
	f := &family{baseID: id, dir: b.memory, lock: lock}
	err = f.checkMemory(fresh)
	if err == nil {
		f.sockets, err = b.sockets(id)
	}
	if err != nil {
		f.release()
		return nil, err
	}
	f.claimed = true
	return f, nil
}

// reclaim claims the base id of Envoys that an agent left behind: their lock ended with that agent. If another user has taken the
// lock's name meanwhile, the family has no lock; if another agent has, that is an error.
func (b bases) reclaim(left orphan) (*family, error) {
	lock, _, err := b.lock(left.baseID)
	if taken := (*baseIDInUseError)(nil); errors.As(err, &taken) && taken.foreign {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return &family{baseID: left.baseID, dir: b.memory, lock: lock, sockets: left.value(socketFlag), claimed: true}, nil
}

func (b bases) lockFile(id uint32) string {
	return filepath.Join(b.memory, fmt.Sprintf("fairway_base_id_%d", id))
}

// lock creates the file of a base id and locks it. fresh reports that it was missing; if it was there, its agent was killed.
func (b bases) lock(id uint32) (f *os.File, fresh bool, err error) {
	path := b.lockFile(id)
	const tries = 16 // somebody who removes it between open and lock does so once
	for range tries {
		_, missing := os.Lstat(path)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
		if err != nil {
			if isForeign(path) {
				return nil, false, &baseIDInUseError{id, describeOwner(path), true}
			}
			return nil, false, fmt.Errorf("claim base id %d: %w", id, err)
		}
		if info, err := f.Stat(); err != nil || !isOurs(info) || !info.Mode().IsRegular() {
			f.Close()
			return nil, false, &baseIDInUseError{id, describeOwner(path), true}
		}
		if err := disk.Lock(f, false); err != nil {
			defer f.Close()
			return nil, false, &baseIDInUseError{id, path + " is locked by " + locker(f), false}
		}
		if sameFile(f, path) {
			return f, missing != nil, nil
		}
		f.Close()
	}
	return nil, false, fmt.Errorf("claim base id %d: %s is replaced all the time", id, path)
}

func sameFile(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Lstat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// checkMemory returns an error if the family's memory cannot be used. Envoy replaces memory of its own user, and cannot start if
// another user has the name.
func (f *family) checkMemory(fresh bool) error {
	path := memoryFile(f.dir, f.baseID)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("claim base id %d: %w", f.baseID, err)
	case !isOurs(info):
		return &baseIDInUseError{f.baseID, describeOwner(path), true}
	case fresh: // maybe in a network namespace of its own that shares this folder
		return &baseIDInUseError{f.baseID, path + " is there, of an Envoy that no agent started", false}
	}
	return nil
}

// release gives the base id back, and removes what its Envoys left. It may be called when none of them runs any more.
func (f *family) release() {
	if f.claimed {
		os.Remove(memoryFile(f.dir, f.baseID))
		f.removeSockets()
	}
	if f.lock != nil {
		os.Remove(f.lock.Name()) // before the lock ends: an agent that opens it later makes a new one
		f.lock.Close()
	}
}
