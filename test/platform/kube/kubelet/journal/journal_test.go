package journal_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/test/platform/kube/kubelet/journal"
)

// ask returns the lines of a query.
func ask(t *testing.T, j *journal.Journal, q journal.Query) string {
	t.Helper()
	var out strings.Builder
	if err := j.Copy(t.Context(), &out, q); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// run has a container write a text and end.
func run(t *testing.T, j *journal.Journal, text string) {
	t.Helper()
	out, done, err := j.Begin(uint32(os.Getuid()), uint32(os.Getgid()))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(out, text)
	out.Close()
	<-done
}

func TestQueries(t *testing.T) {
	j, err := journal.Open(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Copy(t.Context(), io.Discard, journal.Query{Tail: -1}); !errors.Is(err, journal.ErrNoRun) {
		t.Errorf("before the first run: %v", err)
	}
	run(t, j, "one\ntwo\n")
	if err := j.Copy(t.Context(), io.Discard, journal.Query{Tail: -1, Previous: true}); !errors.Is(err, journal.ErrNoRun) {
		t.Errorf("before the second run: %v", err)
	}
	between := time.Now()
	run(t, j, "three\nfour\nfive")
	for _, c := range []struct {
		q    journal.Query
		want string
	}{
		{journal.Query{Tail: -1}, "three\nfour\nfive"},
		{journal.Query{Tail: 2}, "four\nfive"},
		{journal.Query{Tail: 0}, ""},
		{journal.Query{Tail: -1, Previous: true}, "one\ntwo\n"},
		{journal.Query{Tail: -1, Previous: true, Follow: true}, "one\ntwo\n"},
		{journal.Query{Tail: -1, Previous: true, Since: between}, ""},
		{journal.Query{Tail: -1, Since: between}, "three\nfour\nfive"},
		{journal.Query{Tail: -1, Since: time.Now().Add(time.Hour)}, ""},
	} {
		if got := ask(t, j, c.q); got != c.want {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}
	for line := range strings.Lines(ask(t, j, journal.Query{Tail: -1, Timestamps: true})) {
		stamp, _, _ := strings.Cut(line, " ")
		if when, err := time.Parse(time.RFC3339Nano, stamp); err != nil || when.Before(between) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// TestFollow: one that follows a run gets each line once it is whole, and ends with the run.
func TestFollow(t *testing.T) {
	j, err := journal.Open(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	out, done, err := j.Begin(uint32(os.Getuid()), uint32(os.Getgid()))
	if err != nil {
		t.Fatal(err)
	}
	from, to := io.Pipe()
	go func() { to.CloseWithError(j.Copy(t.Context(), to, journal.Query{Tail: -1, Follow: true})) }()
	for _, c := range []struct{ write, want string }{{"a\nb", "a\n"}, {"c\n", "bc\n"}, {"d\n", "d\n"}} {
		fmt.Fprint(out, c.write)
		got := make([]byte, len(c.want))
		if _, err := io.ReadFull(from, got); err != nil || string(got) != c.want {
			t.Errorf("%q, %v; want %q", got, err, c.want)
		}
	}
	fmt.Fprint(out, "end")
	out.Close()
	<-done
	run(t, j, "another run\n")
	if rest, err := io.ReadAll(from); err != nil || string(rest) != "end" {
		t.Errorf("%q, %v", rest, err)
	}
}
