package api

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"time"

	"fairway/internal/disk"
)

// Names that only the tests of this package need.
var (
	NewOn    = newOn
	MostGone = mostGone
)

// Patient sets how long a watch may take to read what the source writes. The source must not run yet.
func Patient(s *Source, d time.Duration) { s.server.patient = d }

// Watches returns how many are open.
func Watches(s *Source) int {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	return s.server.all
}

// Ask asks the API without a connection.
func Ask(s *Source, method, path string, body []byte) *httptest.ResponseRecorder {
	q := httptest.NewRequest(method, "http://localhost"+path, bytes.NewReader(body))
	q.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, q)
	return w
}

// Rewritten says what differs in a state that was written down and read again.
func Rewritten(s *Source, files disk.Files, path string) error {
	entries, _, revision := s.content()
	j := &journal{files: files, path: path, broken: true}
	if err := j.flush(revision, s.content); err != nil {
		return err
	}
	defer j.close()
	again, state, err := openJournal(files, path, 1<<20, nil)
	if err != nil {
		return err
	}
	defer again.close()
	for _, e := range entries {
		if got := state.entries[e.key]; got == nil || got.revision != e.revision || !bytes.Equal(got.body, e.body) {
			return fmt.Errorf("%s is another", e.key.path())
		}
	}
	if len(state.entries) != len(entries) || state.revision != revision {
		return fmt.Errorf("%d things in revision %d, want %d in %d", len(state.entries), state.revision, len(entries), revision)
	}
	return nil
}
