package api

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"time"

	"fairway/internal/disk"
	"fairway/internal/source/api/book"
)

// NewOn is New with another file system.
var NewOn = newOn

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
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	j, _, err := book.OpenJournal(files, path, 1<<20, s.book)
	if err != nil {
		return err
	}
	defer j.Close()
	again, state, err := book.OpenJournal(files, path, 1<<20, nil)
	if err != nil {
		return err
	}
	defer again.Close()
	entries, floor, revision := s.content()
	read, readFloor, readRevision := state.Content()
	if len(read) != len(entries) || readFloor != floor || readRevision != revision {
		return fmt.Errorf("%d things from %d to %d, want %d from %d to %d",
			len(read), readFloor, readRevision, len(entries), floor, revision)
	}
	for i, e := range entries {
		if got := read[i]; got.Key != e.Key || got.Revision != e.Revision || !bytes.Equal(got.Body, e.Body) {
			return fmt.Errorf("%s is another", e.Key.Path())
		}
	}
	return nil
}
