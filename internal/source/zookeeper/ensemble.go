package zookeeper

import (
	"math/rand/v2"
	"sync"
)

// ensemble has the servers of one, in random order, as a zk.HostProvider. Their names are resolved at each connection.
type ensemble struct {
	mu       sync.Mutex
	all      []string
	at, good int
}

// Init takes the list.
func (s *ensemble) Init(all []string) error {
	s.all = append(s.all, all...)
	rand.Shuffle(len(s.all), func(i, j int) { s.all[i], s.all[j] = s.all[j], s.all[i] })
	s.at, s.good = -1, -1
	return nil
}

// Len returns how many there are.
func (s *ensemble) Len() int { return len(s.all) }

// Next returns the server to try; retry says that all others have been tried since one was good.
func (s *ensemble) Next() (server string, retry bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = (s.at + 1) % len(s.all)
	retry = s.at == s.good
	if s.good == -1 {
		s.good = 0
	}
	return s.all[s.at], retry
}

// Connected notes that the last server is good.
func (s *ensemble) Connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good = s.at
}
