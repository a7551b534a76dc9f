package servers

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowBody is an answer that sends n bytes at a time, each time after a pause. Close, and the end of its request, end it.
type slowBody struct {
	pause time.Duration
	n     int
	over  chan struct{}
	once  sync.Once
}

func (b *slowBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(b.pause):
		return min(b.n, len(p)), nil
	case <-b.over:
		return 0, errors.New("the request was cancelled")
	}
}

func (b *slowBody) Close() error { b.once.Do(func() { close(b.over) }); return nil }

// read reads an answer to its end, with a pause of the reader's own before each piece, and returns the number of bytes and the time.
func read(t *testing.T, from *slowBody, most int64, endless bool, own time.Duration, until int) (n int, took time.Duration, err error) {
	t.Helper()
	begun := time.Now()
	b := &body{
		from: from, caller: caller{most: most}, idle: 30 * time.Second, endless: endless,
		late: &late{cancel: func() { from.Close() }},
	}
	defer b.Close()
	piece := make([]byte, 64<<10)
	for n < until {
		time.Sleep(own) // of the test's own clock
		k, err := b.Read(piece)
		if n += k; err != nil {
			return n, time.Since(begun), err
		}
	}
	return n, time.Since(begun), nil
}

// An answer that comes too slowly is given up: it may take ten seconds, and a second for each 64 KiB, and three minutes at most. Time in
// which the reader is busy does not count.
func TestBodiesArePaced(t *testing.T) {
	for name, c := range map[string]struct {
		pause, own time.Duration
		n          int
		endless    bool
		says       string
		least, max time.Duration
	}{
		"a byte a second": {pause: time.Second, n: 1, says: "too slowly", least: 9 * time.Second, max: 11 * time.Second},
		"nothing":         {pause: time.Hour, n: 1, says: "too slowly", least: 9 * time.Second, max: 11 * time.Second},
		"a little faster than that": {
			pause: time.Second, n: 65 << 10, says: "too slowly", least: 170 * time.Second, max: 181 * time.Second,
		},
		"a busy reader":           {pause: time.Millisecond, own: 5 * time.Second, n: 32 << 10, least: 1000 * time.Second},
		"events, a byte a second": {pause: time.Second, n: 1, endless: true, least: 1000 * time.Second},
		"events that end": {
			pause: time.Hour, n: 1, endless: true, says: "nothing more of the answer came for 30s",
			least: 29 * time.Second, max: 31 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				until := 32 << 20
				if c.endless {
					until = 1200
				}
				n, took, err := read(t, &slowBody{pause: c.pause, n: c.n, over: make(chan struct{})}, 64<<20, c.endless, c.own, until)
				switch {
				case c.says == "" && err != nil, c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
					t.Errorf("%d bytes in %s: %v, want %q", n, took, err, c.says)
				case took < c.least || c.max > 0 && took > c.max:
					t.Errorf("it took %s, want %s to %s", took, c.least, c.max)
				}
			})
		})
	}
}

// An answer that is too large is given up at the bound, but a stream of events is not.
func TestBodiesAreBounded(t *testing.T) {
	for _, endless := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			from := &slowBody{pause: time.Microsecond, n: 64 << 10, over: make(chan struct{})}
			n, _, err := read(t, from, 1<<20, endless, 0, 4<<20)
			if large := err != nil && strings.Contains(err.Error(), "more than 1 MiB"); large == endless || n > 5<<20 {
				t.Errorf("endless %t: %d bytes, %v", endless, n, err)
			}
		})
	}
	if _, err := io.ReadAll(&lateBody{take: func() error { return errSlow }}); !errors.Is(err, errSlow) {
		t.Errorf("an answer that could not be read: %v", err)
	}
	if text, err := io.ReadAll(&lateBody{take: func() error { return nil }}); err != nil || string(text) != "null" {
		t.Errorf("an answer that was read: %q %v", text, err)
	}
}
