package watch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	large := filepath.Join(t.TempDir(), "large")
	os.WriteFile(a, []byte("one"), 0o600)
	os.WriteFile(large, make([]byte, 2<<20), 0o600)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	news, over, asked := make(chan struct{}, 10), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		Files(ctx, time.Millisecond, func() []string {
			select {
			case asked <- struct{}{}:
			default: // nobody waits for a look
			}
			return []string{a, b}
		}, func() { news <- struct{}{} })
	}()
	<-asked
	<-asked // the first look is over
	for _, change := range []func() error{
		func() error { return os.WriteFile(a, []byte("two"), 0o600) },
		func() error { return os.Rename(large, b) },
		func() error { return os.Rename(b, a) },
		func() error { return os.Remove(a) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-news:
		case <-time.After(20 * time.Second):
			t.Fatal("a change was not told")
		}
	}
	for range 5 {
		<-asked
	}
	cancel()
	<-over
	if len(news) != 0 {
		t.Errorf("%d changes too many", len(news))
	}
}
