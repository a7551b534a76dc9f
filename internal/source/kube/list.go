package kube

import (
	"context"
	"fairway/internal/source/kube/answers"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// list hands over all there is, a whole shard a namespace.
func (f *feed) list(ctx context.Context) error {
	at, err := f.kind.find(ctx)
	if err != nil {
		return err
	}
	g := f.gathering()
	g.refused = newRefusals(f.kind, f.o)
	defer g.end()
	if f.scope == nil {
		g.part("")
	}
	version, err := f.pages(ctx, at, g)
	if err != nil {
		return err
	}
	f.takeBack(g.problems)
	for namespace, old := range f.parts { // removed while there was no watch
		if g.parts[namespace] == nil {
			f.kind.read(old.reader).Listed()
			old.costs.Drop()
		}
	}
	g.commit()
	f.parts, f.at, f.version = g.parts, at, version
	clear(f.pending)
	f.out.put(g.shards(), g.problems)
	for _, p := range g.parts {
		p.reader.Listed()
	}
	f.report()
	f.listed = true
	f.release()
	return nil
}

// sparePages is how many pages a list may have beyond those that its objects fill half.
const sparePages = 50

// pages reads all objects of a collection, and returns the version that they are of.
func (f *feed) pages(ctx context.Context, at answers.Collection, g *gathering) (version string, err error) {
	opts := metav1.ListOptions{Limit: pageSize}
	if f.unlimited {
		opts.Limit, f.unlimited = 0, false
	}
	n, most := 0, maxObjects
	if f.o.Remote {
		most = maxRemoteObjects
	}
	each := func(o runtime.Object) error {
		if n++; n > most {
			return fmt.Errorf("there are more than %d objects", most)
		}
		g.set(o)
		return nil
	}
	for pages := 1; ; pages++ {
		page, err := f.page(ctx, at, opts, each)
		if forgotten(err) && opts.Continue != "" {
			f.unlimited = true
			return "", fmt.Errorf("%w: %w", errForgotten, err)
		}
		if err != nil {
			if apierrors.IsNotFound(err) {
				f.kind.lost()
			}
			return "", err
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			return page.ResourceVersion, nil
		}
		if pages > sparePages+2*n/pageSize {
			return "", fmt.Errorf("the API server gives page after page of a list, %d with %d objects in all, and no last one", pages, n)
		}
	}
}

// slowAnswer is how long the API server may take for an answer before that is reported.
const slowAnswer = 10 * time.Second

func (f *feed) page(
	ctx context.Context, at answers.Collection, opts metav1.ListOptions, each func(runtime.Object) error,
) (metav1.ListMeta, error) {
	ctx, stop := context.WithTimeoutCause(ctx, f.o.AnswerTime, errSilent)
	defer stop()
	ctx, turn := f.o.lane.With(ctx)
	defer turn.End()
	awaited := f.awaited || f.listed
	slow := time.AfterFunc(f.o.slow, func() {
		if awaited {
			f.out.setState(f.title(), fmt.Sprintf("the API server has not given a whole answer for %s", f.o.slow))
		}
	})
	page, err := at.Page(ctx, opts, each)
	if !slow.Stop() && err == nil && f.state == stateUp {
		f.out.setState(f.title(), "")
	}
	return page, silence(ctx, err)
}
