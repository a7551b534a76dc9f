package applies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairway/internal/admin/page"
	"fairway/internal/app/publish"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/printable"
)

// Limits of one answer: turns are held off while an object is looked at (publish.Publisher.Reach).
const (
	mostTime    = 2 * time.Second // of looking, after which the rest is for the next answer
	mostObjects = 500             // objects
)

// Publisher counts the proxies that are connected, and finds those that an object affects. *publish.Publisher is one.
type Publisher interface {
	Proxies() int
	Reach(config.Key) (publish.Reach, bool)
}

// Options of Answers. All are required.
type Options struct {
	Objects   func() []*config.Object // all of them, in order
	Publisher Publisher
	Problems  func() []mesh.Problem
	// Between calls a function between two turns, and waits for that. It leaves the loop free for as long as the function before took.
	Between func(ctx context.Context, f func()) error
}

// Answers finds the proxies that objects affect. Many goroutines may use one.
type Answers struct{ o Options }

// New returns an Answers.
func New(o Options) *Answers { return &Answers{o} }

// Applies returns, for each object, how many connected proxies it affects, and the possible reasons if there are none.
func (a *Answers) Applies(ctx context.Context, kind, namespace, name, after string) (out page.Reaches, err error) {
	objects, err := a.objectsOf(kind, namespace, name, after)
	if err != nil {
		return out, err
	}
	why, connected := a.reasons(), a.o.Publisher.Proxies()
	out.Objects = []page.ObjectReach{}
	var took time.Duration
	for i, o := range objects {
		if took > mostTime || len(out.Objects) == mostObjects {
			out.Next = cursor(objects[i-1].Key)
			break
		}
		reach, has, one := publish.Reach{Proxies: connected}, true, time.Duration(0)
		if o.Kind != config.MeshConfig { // it affects every proxy: a trial turn would recompute the whole mesh
			if err := a.o.Between(ctx, func() {
				start := time.Now()
				reach, has = a.o.Publisher.Reach(o.Key)
				one = time.Since(start)
			}); err != nil {
				return out, err
			}
		}
		took += one
		if !has {
			continue // it went meanwhile
		}
		row := page.ObjectReach{
			Kind: string(o.Kind), Namespace: o.Namespace, Name: o.Name, File: o.Ref.File, Line: o.Ref.Line, Proxies: reach.Proxies,
		}
		for _, id := range reach.Some {
			row.Some = append(row.Some, string(id))
		}
		if reach.Proxies == 0 {
			row.Why = why.of(o, connected)
		}
		out.Objects = append(out.Objects, row)
	}
	return out, nil
}

// objectsOf returns the objects that are asked about, in order.
func (a *Answers) objectsOf(kind, namespace, name, after string) ([]*config.Object, error) {
	from, err := parseCursor(after)
	if err != nil {
		return nil, err
	}
	objects := a.o.Objects()
	asked := func(k config.Kind) bool { return kind == "" || strings.EqualFold(string(k), kind) }
	if !slices.ContainsFunc(config.Kinds(), asked) && !slices.ContainsFunc(objects, func(o *config.Object) bool { return asked(o.Kind) }) {
		return nil, fmt.Errorf("there is no kind %q; write one as VirtualService", printable.Text(kind, printable.Short))
	}
	return slices.DeleteFunc(objects, func(o *config.Object) bool {
		return !asked(o.Kind) || namespace != "" && o.Namespace != namespace ||
			name != "" && o.Name != name || after != "" && config.CompareKey(o.Key, from) <= 0
	}), nil
}

// cursor names an object in a page's answer, parseCursor reads it.
func cursor(k config.Key) string { return string(k.Kind) + "/" + k.Namespace + "/" + k.Name }

func parseCursor(text string) (config.Key, error) {
	if text == "" {
		return config.Key{}, nil
	}
	parts := strings.SplitN(text, "/", 3)
	if len(parts) != 3 {
		return config.Key{}, errors.New("after: want what the answer before named as next, KIND/NAMESPACE/NAME")
	}
	return config.Key{Kind: config.Kind(parts[0]), Namespace: parts[1], Name: parts[2]}, nil
}

// reasons are the problems of objects, by object.
type reasons map[config.Key][]string

func (a *Answers) reasons() reasons {
	out := reasons{}
	for _, p := range a.o.Problems() {
		k := config.KeyOf(p.Object)
		if len(out[k]) < mostReasons {
			out[k] = append(out[k], p.Code+": "+p.Message)
		}
	}
	return out
}

// mostReasons is how many problems of one object are shown.
const mostReasons = 10

// of returns the reasons why an object may have no effect: its problems, or a known limit of its kind.
func (r reasons) of(o *config.Object, connected int) []string {
	if list := r[o.Key]; len(list) > 0 {
		return list
	}
	switch {
	case connected == 0:
		return []string{"no proxy is connected"}
	case o.Kind == config.WorkloadGroup || o.Kind == config.ProxyConfig:
		return []string{"agents and WorkloadEntries are made by it; what a connected proxy is sent does not name it"}
	}
	return []string{"no connected proxy is one that it is for, or other objects ask for the same"}
}
