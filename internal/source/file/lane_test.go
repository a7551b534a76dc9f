package file

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairway/internal/config"
	"fairway/internal/disk/watch"
)

// manyDocuments returns a small file that says nothing and takes long: to begin a document costs more than its text.
func manyDocuments(version int) string {
	return fmt.Sprintf("kind: List\nitems: [{v: %d}, ", version) + strings.Repeat("{a: b}, ", 3900) + "{a: c}]\n"
}

func bombText(version, size int) string {
	return fmt.Sprintf("v: %d\nx: &x [", version) + strings.Repeat("a, ", size/6) + "a]\ny: [" + strings.Repeat("*x, ", size/8) + "*x]\n"
}

// placed writes files and has the runner hear of it.
func (b *bed) placed(r *runner, files map[string]string) {
	var list []watch.Event
	for name, text := range files {
		b.place(name, text)
		list = append(list, watch.Event{Dir: b.dir, Name: name, What: watch.Placed})
	}
	r.take(list)
	r.scan(never)
	r.step()
}

func (b *bed) finished(r *runner) loaded {
	b.Helper()
	select {
	case got := <-r.lane.done:
		r.finished(got)
		r.step()
		return got
	case <-time.After(20 * time.Second):
		b.Fatal("nothing was read")
		return loaded{}
	}
}

// TestSmallFileOfManyDocuments: the loop decodes none of it; what changed with it is in force at once, and it is refused all the same.
func TestSmallFileOfManyDocuments(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	r := stepped(b)
	for version := range 3 {
		text := manyDocuments(version)
		if len(text) >= large || len(config.Split("", []byte(text))) < 3900 {
			t.Fatalf("%d bytes", len(text))
		}
		b.placed(r, map[string]string{"b.yaml": text, "a.yaml": entryText("a", fmt.Sprintf("a%d.com", version))})
		if batch := b.next(); len(batch.Set) != 1 || batch.Set[0].Name != "a" || len(batch.Problems[b.path("b.yaml")]) != 0 {
			t.Errorf("set %v, %d problems of the other", batch.Set, len(batch.Problems[b.path("b.yaml")]))
		}
		if j := r.lane.pending[b.path("b.yaml")]; len(r.lane.pending) != 1 || j == nil || !j.slow {
			t.Fatalf("beside the loop: %v", r.lane.pending)
		}
		b.finished(r)
		b.drain()
		if n := len(b.said[b.path("b.yaml")]); n != maxProblems+1 {
			t.Errorf("%d problems", n)
		}
	}
}

// TestHostileFilesHaveOneLane: of files that were refused one at a time is read, however often they are written; no
// other large file waits for more than that one, and those that are no more than large for none of them.
func TestHostileFilesHaveOneLane(t *testing.T) {
	const bombs = 10
	honest := strings.Repeat(entryText("h", "h.com")+"# "+strings.Repeat("x", 1000)+"\n---\n", 1)
	files := []string{"large.yaml", honest + "# " + strings.Repeat("x", large), "huge.yaml", honest + "# " + strings.Repeat("x", huge)}
	for i := range bombs {
		files = append(files, fmt.Sprintf("bomb%d.yaml", i), bombText(i, 50<<10+i%2*huge))
	}
	b := newBed(t, files...)
	r := stepped(b)
	begun, release := make(chan string, 100), make(chan struct{})
	r.lane.read = func(ctx context.Context, t task, most int) loaded {
		begun <- strings.TrimPrefix(t.path, b.dir+"/")
		if strings.Contains(t.path, "bomb") {
			<-release
		}
		return r.lane.loader.one(ctx, t, most)
	}
	again := map[string]string{}
	for i := range bombs {
		again[fmt.Sprintf("bomb%d.yaml", i)] = bombText(i+100, 50<<10+i%2*huge)
	}
	b.placed(r, again)
	if name := <-begun; !strings.Contains(name, "bomb") || len(begun) != 0 || r.lane.slow != 1 || r.lane.quick != 0 {
		t.Errorf("%d files that were refused are read at a time, %d of them as if they were not", r.lane.slow+r.lane.quick, r.lane.quick)
	}
	b.placed(r, map[string]string{"large.yaml": files[1] + "y", "huge.yaml": files[3] + "y"})
	if got := b.finished(r); got.path != b.path("large.yaml") {
		t.Errorf("read %s", got.path)
	}
	if name := <-begun; name != "large.yaml" {
		t.Errorf("began with %s", name)
	}
	b.placed(r, again) // rewritten meanwhile: it is not the one that comes next
	release <- struct{}{}
	b.finished(r)
	if name := <-begun; name != "huge.yaml" {
		t.Errorf("after a hostile file comes %s", name)
	}
	b.finished(r)
	close(release)
	for len(r.lane.pending) > 0 {
		if r.lane.slow+r.lane.quick != 1 {
			t.Errorf("%d and %d files are read at a time", r.lane.slow, r.lane.quick)
		}
		b.finished(r)
	}
	if len(begun) != bombs-1+1 {
		t.Errorf("%d more files were read", len(begun))
	}
}

// TestNewFileOfManyDocuments: a large new file is put off once its content turns out to be much work, so that it takes
// none of the quick lanes.
func TestNewFileOfManyDocuments(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	r := stepped(b)
	b.placed(r, map[string]string{"b.yaml": strings.Repeat("a\n---\n", 10_000)})
	if j := r.lane.pending[b.path("b.yaml")]; j == nil || j.slow || r.lane.quick != 1 {
		t.Fatalf("%+v", j)
	}
	if got := b.finished(
		r,
	); !got.isPutOff || len(got.entries) != 0 || got.work < huge || !r.lane.pending[got.path].slow || r.lane.quick != 0 ||
		r.lane.slow != 1 {
		t.Errorf("put off: %t, %d entries of %d, %d and %d lanes are taken", got.isPutOff, len(got.entries), got.work,
			r.lane.quick, r.lane.slow)
	}
	if got := b.finished(r); len(got.entries) != 10_000 || len(r.lane.pending) != 0 {
		t.Errorf("%d entries", len(got.entries))
	}
	b.drain()
	if n := len(b.said[b.path("b.yaml")]); n != maxProblems+1 {
		t.Errorf("%d problems", n)
	}
}
