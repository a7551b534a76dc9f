package review

import (
	"crypto/sha256"
	"sync"
	"time"

	"fairway/internal/identity/authn"
)

// answer is the API server's result for a token.
type answer struct {
	caller authn.Caller
	err    error
	until  time.Time // when it must be asked again
}

// maxAnswers is how many are kept. With more tokens the API server is only asked more often.
const maxAnswers = 10_000

// digest is the hash of a token; tokens are not kept.
type digest = [sha256.Size]byte

// answers are kept until they end, or room is needed.
type answers struct {
	mu  sync.Mutex
	all map[digest]answer
}

func newAnswers() answers { return answers{all: map[digest]answer{}} }

func (a *answers) get(key digest, now time.Time) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.all[key]
	if ok && !now.Before(found.until) {
		delete(a.all, key)
		return answer{}, false
	}
	return found, ok
}

// put keeps an answer. If the cache is full, it removes expired answers, or all if none has expired, which is rare.
func (a *answers) put(key digest, what answer, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) >= maxAnswers {
		for k, old := range a.all {
			if !now.Before(old.until) {
				delete(a.all, k)
			}
		}
		if len(a.all) >= maxAnswers {
			clear(a.all)
		}
	}
	a.all[key] = what
}
