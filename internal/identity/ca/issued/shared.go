package issued

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	shared "fairway/internal/state"
)

// Shared returns a record in a store that several control planes share: a record for each certificate, below its last day.
// Certificates are written behind the answers, in order; while the store is away, the first mostUnwritten wait.
func Shared(in *shared.Shared, log *slog.Logger) Record { return &records{in: in, log: log} }

type records struct {
	in  *shared.Shared
	log *slog.Logger

	mu      sync.Mutex
	waiting []line
	lost    int
	writes  bool          // a goroutine writes
	written chan struct{} // closed once it has ended
	cleaned time.Time
}

type line struct{ name, text string }

const (
	recordsOf     = "issued/"
	mostUnwritten = 100_000
	writeAgain    = time.Second
	cleanEvery    = time.Hour
	flushWithin   = time.Minute
)

// Put implements Record.
func (i *records) Put(c Certificate) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.waiting) >= mostUnwritten {
		i.lost++
		return fmt.Errorf("%d certificates wait for %s", mostUnwritten, i.in)
	}
	i.waiting = append(i.waiting, line{recordsOf + c.day() + "/" + c.Serial, c.String()})
	if !i.writes {
		i.writes, i.written = true, make(chan struct{})
		go i.write()
	}
	return nil
}

// Flush implements Record.
func (i *records) Flush() error {
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
func (i *records) write() {
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

// Each implements Record.
func (i *records) Each(now time.Time, do func(Certificate)) error {
	i.mu.Lock()
	waiting := append([]line(nil), i.waiting...)
	i.mu.Unlock()
	all, err := i.in.Records(recordsOf, maxLine, func(name string, err error) {
		i.log.Warn("the record of an issued certificate cannot be read", "record", name, "error", err)
	})
	if err != nil {
		return err
	}
	for _, w := range waiting {
		all[w.name] = []byte(w.text)
	}
	for _, text := range all {
		if r, ok := Parse(string(text)); ok && now.Before(r.Ends) {
			do(r)
		}
	}
	return nil
}

// Clean implements Record: the control plane that writes does it, once an hour.
func (i *records) Clean(now time.Time) error {
	return i.in.Alone(func(remove func(string) error) error {
		i.mu.Lock()
		due := now.Sub(i.cleaned) >= cleanEvery
		i.mu.Unlock()
		if !due {
			return nil
		}
		all, err := i.in.Records(recordsOf, maxLine, func(string, error) {})
		if err != nil {
			return err
		}
		for name := range all {
			day, _, _ := strings.Cut(strings.TrimPrefix(name, recordsOf), "/")
			if at, err := time.Parse(dayForm, day); err == nil && !now.Before(at.Add(24*time.Hour)) {
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
