package work

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"fairway/internal/spelling"
)

// StatusPath returns the API server's path of an object's status. An empty namespace: the object is in none.
func StatusPath(apiVersion, kind, namespace, name string) string {
	path := "/apis/" + apiVersion
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + strings.ToLower(spelling.Plural(kind)) + "/" + name + "/status"
}

// StatusPatch returns the merge patch that sets fields of an object's status. It applies only to the version that was seen.
func StatusPatch(version, uid string, status any) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version, "uid": uid}, "status": status})
}

// Patch is a merge patch of an object, or an object to be applied.
type Patch struct {
	API     rest.Interface // asked by path
	Path    string
	Manager string // of the fields that are written
	Body    []byte
	// Apply has the server apply the object Body; Force: fields of other managers, too.
	Apply, Force bool
	// Says is what the object says afterwards, without times, and Generation of which version. If the same is to be written again, another
	// client has undone it.
	Says       any
	Generation int64
}

// Patch writes an object, but ever more rarely if another client undoes the same each time. gone: there is no such object any more. Do
// calls it, and returns its error.
func (q *Queue[K]) Patch(ctx context.Context, k K, p Patch) (gone bool, err error) {
	says, err := json.Marshal([]any{p.Says, p.Generation})
	if err != nil {
		return false, err
	}
	what := xxhash.Sum64(says)
	if err := q.rivals.may(k, what, time.Now()); err != nil {
		return false, err
	}
	if err := q.Pace(ctx); err != nil {
		return false, err
	}
	kind := types.MergePatchType
	if p.Apply {
		kind = types.ApplyPatchType
	}
	request := p.API.Patch(kind).AbsPath(p.Path).Param("fieldManager", p.Manager).Body(p.Body)
	if p.Force {
		request = request.Param("force", "true")
	}
	err = request.Do(ctx).Error()
	switch {
	case err == nil:
		q.rivals.wrote(k, what, time.Now())
		q.o.Report.Wrote(q.o.Task)
	case apierrors.IsNotFound(err): // it was deleted meanwhile
		q.rivals.forget(k)
		return true, nil
	case apierrors.IsConflict(err): // there is a newer version: its watch event follows
		return false, ErrWait
	}
	return false, err
}

// Forget is called when an object is gone.
func (q *Queue[K]) Forget(k K) { q.rivals.forget(k) }

// How long a write waits that another client has undone more than once; the time doubles with each. After a calm time it counts no more.
const (
	rivalFirst = time.Second
	rivalLast  = 5 * time.Minute
	rivalCalm  = 10 * time.Minute
)

// rivals knows what was written last of each object. The zero value knows nothing.
type rivals[K comparable] struct {
	mu sync.Mutex
	by map[K]write
}

type write struct {
	what  uint64
	at    time.Time
	again int // how often the same was written before
}

// rivalError says that a write waits because another client undoes it.
type rivalError struct{ wait time.Duration }

func (e rivalError) Error() string {
	return fmt.Sprintf("another client writes something else each time; it is written again in %s: divide the objects by istio.io/rev, "+
		"or end the other client", e.wait.Round(time.Second))
}

// may returns a rivalError if the same must not be written yet.
func (r *rivals[K]) may(k K, what uint64, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.by[k]
	if !known || last.what != what || last.again == 0 || now.Sub(last.at) >= rivalCalm {
		return nil
	}
	if wait := min(rivalFirst<<min(last.again-1, 16), rivalLast) - now.Sub(last.at); wait > 0 {
		return rivalError{wait}
	}
	return nil
}

func (r *rivals[K]) wrote(k K, what uint64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[K]write{}
	}
	next := write{what: what, at: now}
	if last, known := r.by[k]; known && last.what == what && now.Sub(last.at) < rivalCalm {
		next.again = last.again + 1
	}
	r.by[k] = next
}

func (r *rivals[K]) forget(k K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, k)
}
