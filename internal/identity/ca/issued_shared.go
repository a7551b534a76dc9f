package ca

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	shared "fairway/internal/state"
)

// issuedRecords keeps the record in a store: a record for each certificate, below the day on which it ends. Certificates are written behind
// the answers, in order; while the store is away, the last mostUnwritten wait.
type issuedRecords struct {
	in  *shared.Shared
	log *slog.Logger

	mu      sync.Mutex
	waiting []issuedLine
	lost    int
	writes  bool          // a goroutine writes
	written chan struct{} // closed once it has ended
	cleaned time.Time
}

type issuedLine struct{ name, text string }

const (
	issuedPrefix  = issuedFolder + "/"
	mostUnwritten = 100_000
	writeAgain    = time.Second
	cleanEvery    = time.Hour
	flushWithin   = time.Minute
)

func newIssuedRecords(in *shared.Shared, log *slog.Logger) *issuedRecords {
	return &issuedRecords{in: in, log: log}
}

// put implements issued.
func (i *issuedRecords) put(x record) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.waiting) >= mostUnwritten {
		i.lost++
		return fmt.Errorf("%d certificates wait for %s", mostUnwritten, i.in)
	}
	i.waiting = append(i.waiting, issuedLine{issuedPrefix + x.day() + "/" + x.serial, x.line()})
	if !i.writes {
		i.writes, i.written = true, make(chan struct{})
		go i.write()
	}
	return nil
}

// flush implements issued.
func (i *issuedRecords) flush() error {
	i.mu.Lock()
	written, some := i.written, i.writes
	i.mu.Unlock()
	if !some {
		return nil
	}
	select {
	case <-written:
		return nil
	case <-time.After(flushWithin):
		return fmt.Errorf("%s does not take the record of issued certificates", i.in)
	}
}

// write writes what waits, and ends once nothing does.
func (i *issuedRecords) write() {
	for {
		i.mu.Lock()
		if len(i.waiting) == 0 {
			i.writes, i.waiting = false, nil
			close(i.written)
			i.mu.Unlock()
			return
		}
		next := i.waiting[0]
		i.mu.Unlock()
		err := i.in.Change(next.name, maxLine, func([]byte) ([]byte, error) { return []byte(next.text), nil })
		if err != nil && i.in.Closed() {
			return
		}
		if err != nil {
			time.Sleep(writeAgain) // the store is away
			continue
		}
		i.mu.Lock()
		i.waiting = i.waiting[1:]
		i.mu.Unlock()
	}
}

// each implements issued.
func (i *issuedRecords) each(now time.Time, do func(record)) error {
	i.mu.Lock()
	waiting := append([]issuedLine(nil), i.waiting...)
	i.mu.Unlock()
	all, err := i.in.Records(issuedPrefix, maxLine, func(name string, err error) {
		i.log.Warn("the record of an issued certificate cannot be read", "record", name, "error", err)
	})
	if err != nil {
		return err
	}
	for _, w := range waiting {
		all[w.name] = []byte(w.text)
	}
	for _, text := range all {
		if r, ok := parseRecord(string(text)); ok && now.Before(r.ends) {
			do(r)
		}
	}
	return nil
}

// clean implements issued: the control plane that writes does it, once an hour.
func (i *issuedRecords) clean(now time.Time) error {
	return i.in.Alone(func(remove func(string) error) error {
		i.mu.Lock()
		due := now.Sub(i.cleaned) >= cleanEvery
		i.mu.Unlock()
		if !due {
			return nil
		}
		all, err := i.in.Records(issuedPrefix, maxLine, func(string, error) {})
		if err != nil {
			return err
		}
		for name := range all {
			day, _, _ := strings.Cut(strings.TrimPrefix(name, issuedPrefix), "/")
			if at, err := time.Parse(issuedDay, day); err == nil && !now.Before(at.Add(24*time.Hour)) {
				if err := remove(name); err != nil && !errors.Is(err, shared.ErrConflict) {
					return err
				}
			}
		}
		i.mu.Lock()
		i.cleaned = now
		i.mu.Unlock()
		return nil
	})
}
